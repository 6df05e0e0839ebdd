"""Numba kernels, compiled ahead of time for several architectures."""

import math

from numba import cuda, float32, float64, int32, int64, types

CAPABILITIES = [(7, 5), (8, 0), (9, 0)]


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def stencil(x, y):
    tile = cuda.shared.array(258, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        tile[t + 1] = x[i]
    cuda.syncthreads()
    if 0 < i < x.size - 1:
        y[i] = 0.25 * tile[t] + 0.5 * tile[t + 1] + 0.25 * tile[t + 2]


def histogram(x, bins):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, x[i], 1)


def matmul(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


def reduce(x, out):
    value = x[cuda.grid(1)]
    offset = 16
    while offset:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        offset //= 2
    if cuda.laneid == 0:
        cuda.atomic.max(out, 0, value)


def local_array(x, y):
    scratch = cuda.local.array(16, float64)
    i = cuda.grid(1)
    for k in range(16):
        scratch[(k * 7) % 16] = math.sin(x[i] + k)
    total = 0.0
    for k in range(16):
        total += scratch[(k + i) % 16]
    y[i] = math.sqrt(total)


def clamp(value, low, high):
    return min(max(value, low), high)


F32, F64, I32 = float32[::1], float64[::1], int32[::1]
KERNELS = [
    (saxpy, types.void(float32, F32, F32), False),
    (stencil, types.void(F32, F32), False),
    (histogram, types.void(I32, I32), False),
    (matmul, types.void(float64[:, :], float64[:, :], float64[:, :]), False),
    (reduce, types.void(F32, F32), False),
    (local_array, types.void(F64, F64), False),
    (clamp, int64(int64, int64, int64), True),
]


def generate(output):
    output.mkdir(parents=True, exist_ok=True)
    for function, signature, is_device in KERNELS:
        for capability in CAPABILITIES:
            for suffix, options in (("plain", {}), ("lines", {"lineinfo": True}), ("debug", {"debug": True, "opt": False})):
                text, _ = cuda.compile_ptx(function, signature, device=is_device, cc=capability, **options)
                name = f"{function.__name__}.{capability[0]}{capability[1]}.{suffix}.ptx"
                (output / name).write_text(text)
