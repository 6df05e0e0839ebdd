"""Triton kernels, compiled ahead of time for several architectures."""

import itertools

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# Triton targets these capabilities without a device.
CAPABILITIES = [80, 90, 100]


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + columns, mask=columns < n, other=-float("inf"))
    exponents = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + columns, exponents / tl.sum(exponents, axis=0), mask=columns < n)


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    accumulator = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, tl.cdiv(k, K)):
        left = k - start * K
        x = tl.load(a + rows[:, None] * k + (start * K + inner)[None, :],
                    mask=(rows[:, None] < m) & (inner[None, :] < left), other=0.0)
        y = tl.load(b + (start * K + inner)[:, None] * n + columns[None, :],
                    mask=(inner[:, None] < left) & (columns[None, :] < n), other=0.0)
        accumulator = tl.dot(x, y, accumulator)
    tl.store(c + rows[:, None] * n + columns[None, :], accumulator.to(tl.float16),
             mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def matmul_descriptor(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    x = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[M, K])
    y = tl.make_tensor_descriptor(b, shape=[k, n], strides=[n, 1], block_shape=[K, N])
    z = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[M, N])
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    accumulator = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        accumulator = tl.dot(x.load([row, start]), y.load([start, column]), accumulator)
    z.store([row, column], accumulator.to(tl.float16))


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.atomic_add(bins + tl.load(x + offsets, mask=mask, other=0), 1, mask=mask)


@triton.jit
def layernorm(x, out, weight, bias, n, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
        total += tl.where(columns < n, (values - mean) * (values - mean), 0.0)
    scale = tl.rsqrt(tl.sum(total, axis=0) / n + epsilon)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns < n
        values = tl.load(x + row * n + columns, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(weight + columns, mask=mask)
        tl.store(out + row * n + columns, (values - mean) * scale * w + tl.load(bias + columns, mask=mask), mask=mask)


@triton.jit
def attention(q, k, v, out, n, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    inner = tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + inner[None, :], mask=rows[:, None] < n, other=0.0)
    highest = tl.full([M], -float("inf"), dtype=tl.float32)
    total = tl.zeros([M], dtype=tl.float32)
    accumulator = tl.zeros([M, D], dtype=tl.float32)
    for start in range(0, n, N):
        columns = start + tl.arange(0, N)
        key = tl.load(k + columns[None, :] * D + inner[:, None], mask=columns[None, :] < n, other=0.0)
        scores = tl.where(columns[None, :] < n, tl.dot(query, key) * scale, -float("inf"))
        new = tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new[:, None])
        factor = tl.exp2(highest - new)
        total = total * factor + tl.sum(weights, axis=1)
        value = tl.load(v + columns[:, None] * D + inner[None, :], mask=columns[:, None] < n, other=0.0)
        accumulator = tl.dot(weights.to(tl.float16), value, accumulator * factor[:, None])
        highest = new
    tl.store(out + rows[:, None] * D + inner[None, :], accumulator / total[:, None], mask=rows[:, None] < n)


@triton.jit
def scan(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.cumsum(tl.load(x + offsets, mask=mask, other=0), axis=0), mask=mask)


TILE = {"M": 64, "N": 64, "K": 32}
F16 = {"a": "*fp16", "b": "*fp16", "c": "*fp16"}
SIZES = {"m": "i32", "n": "i32", "k": "i32"}
KERNELS = [
    (add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 1024}),
    (softmax, {"x": "*fp32", "out": "*fp32", "stride": "i32", "n": "i32"}, {"BLOCK": 1024}),
    (matmul, F16 | SIZES, TILE),
    (matmul_descriptor, F16 | SIZES, TILE),
    (histogram, {"x": "*i32", "bins": "*i32", "n": "i32"}, {"BLOCK": 256}),
    (layernorm, {"x": "*fp16", "out": "*fp16", "weight": "*fp32", "bias": "*fp32", "n": "i32", "epsilon": "fp32"},
     {"BLOCK": 512}),
    (attention, {"q": "*fp16", "k": "*fp16", "v": "*fp16", "out": "*fp32", "n": "i32", "scale": "fp32"},
     {"M": 64, "N": 64, "D": 64}),
    (scan, {"x": "*i32", "out": "*i32", "n": "i32"}, {"BLOCK": 512}),
]


def generate(output):
    output.mkdir(parents=True, exist_ok=True)
    for (kernel, signature, constants), capability in itertools.product(KERNELS, CAPABILITIES):
        if kernel is matmul_descriptor and capability < 90:
            continue  # tensor maps need sm_90
        for aligned in (False, True):
            # Pointers and sizes that are multiples of 16, as launches mark them.
            attributes = {}
            if aligned:
                attributes = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(signature.values()) if t != "fp32"}
            source = ASTSource(kernel, signature | dict.fromkeys(constants, "constexpr"),
                               constexprs=constants, attrs=attributes)
            compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
            suffix = "aligned" if aligned else "plain"
            (output / f"{kernel.__name__}.{capability}.{suffix}.ptx").write_text(compiled.asm["ptx"])
