"""Wrong sizes planted in calls of libraries that are machine code alone.

`planted.py --list` prints a JSON line for each case: its name, its library, the
call, what is wrong, and bytes of the buffer. `planted.py NAME wrong` makes the call with the wrong
size, and `planted.py NAME right` with the right one. Both print the same line,
unless the process ends before.

Every tensor is an allocation of CUDA's, unless `--cached` says otherwise.
"""

import ctypes
import json
import os
import sys

CACHED = "--cached" in sys.argv[1:]
if not CACHED:
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"

MIB = 1 << 20


def loaded(name):
    """A library that PyTorch has loaded, by the start of its file's name."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.split()[-1]
            if os.path.basename(path).startswith(name):
                return ctypes.CDLL(path)
    raise RuntimeError(f"PyTorch has not loaded {name}")


def pointer(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def must(status, call):
    if status != 0:
        raise RuntimeError(f"{call} returned {status}")


class Claimed:
    """Memory of a tensor as one of another number of floats."""

    def __init__(self, tensor, count):
        self.owner = tensor
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "<f4",
            "data": (tensor.data_ptr(), False),
            "version": 3,
        }


def claimed(torch, tensor, count):
    return torch.as_tensor(Claimed(tensor, count), device="cuda")


def sgemm(torch, rows_of_b, columns_of_c, n):
    """C = A · B of 1024 rows and n columns, by cuBLAS itself."""
    size = 1024
    a = torch.ones(size * size, device="cuda")
    b = torch.ones(size * rows_of_b, device="cuda")
    c = torch.zeros(size * columns_of_c, device="cuda")
    # (PyTorch makes the handle, and loads the library.)
    handle = ctypes.c_void_p(torch.cuda.current_blas_handle())
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
    must(
        loaded("libcublas.so").cublasSgemm_v2(
            handle, 0, 0, size, n, size, ctypes.byref(one), pointer(a), size,
            pointer(b), size, ctypes.byref(zero), pointer(c), size,
        ),
        "cublasSgemm",
    )
    torch.cuda.synchronize()


def gemm_read(torch, wrong):
    sgemm(torch, 1024 if wrong else 1536, 1536, 1536)


def gemm_write(torch, wrong):
    sgemm(torch, 1536, 1024 if wrong else 1536, 1536)


def fft(torch, wrong):
    """A transform of 2^20 complex numbers in place."""
    count = 1 << 20
    data = torch.ones(count // 2 * 2 if wrong else count * 2, device="cuda")
    torch.fft.fft(torch.ones(16, dtype=torch.complex64, device="cuda"))
    cufft = loaded("libcufft.so")
    plan = ctypes.c_int()
    must(cufft.cufftPlan1d(ctypes.byref(plan), count, 0x29, 1), "cufftPlan1d")
    must(cufft.cufftExecC2C(plan, pointer(data), pointer(data), -1), "cufftExecC2C")
    torch.cuda.synchronize()


def torch_read(torch, wrong):
    """A sum over twice as many floats as there are."""
    count = 16 * MIB // 4
    data = torch.ones(count, device="cuda")
    claimed(torch, data, count * 2 if wrong else count).sum()
    torch.cuda.synchronize()


def torch_write(torch, wrong):
    """One is added to twice as many floats as there are."""
    count = 16 * MIB // 4
    data = torch.ones(count, device="cuda")
    claimed(torch, data, count * 2 if wrong else count).add_(1.0)
    torch.cuda.synchronize()


def torch_small(torch, wrong):
    """A sum over 4 MiB, of which 3 KiB are there."""
    data = torch.ones(768 if wrong else 1024, device="cuda")
    claimed(torch, data, 1 << 20 if wrong else 1024).sum()
    torch.cuda.synchronize()


def torch_freed(torch, wrong):
    """A sum over a tensor that is gone."""
    count = 16 * MIB // 4
    data = torch.ones(count, device="cuda")
    claim = Claimed(data, count)
    view = torch.as_tensor(claim, device="cuda")
    if wrong:
        claim.owner = data = None
    view.sum()
    torch.cuda.synchronize()


# What runs, the library, its call, what is wrong, and bytes of the buffer that it is wrong
# for.
CASES = {
    "gemm_read": (gemm_read, "cuBLAS", "cublasSgemm", "B has 1024 of 1536 columns", 4 * MIB),
    "gemm_write": (gemm_write, "cuBLAS", "cublasSgemm", "C has 1024 of 1536 columns", 4 * MIB),
    "fft": (fft, "cuFFT", "cufftExecC2C", "half of the data is there", 4 * MIB),
    "torch_read": (torch_read, "PyTorch", "sum", "half of the data is there", 16 * MIB),
    "torch_write": (torch_write, "PyTorch", "add_", "half of the data is there", 16 * MIB),
    "torch_small": (torch_small, "PyTorch", "sum", "3 KiB of 4 MiB are there", 3 << 10),
    "torch_freed": (torch_freed, "PyTorch", "sum", "the tensor was freed", 16 * MIB),
}


def main():
    if "--list" in sys.argv[1:]:
        for name, (_, library, call, wrong, size) in CASES.items():
            row = {"case": name, "library": library, "call": call, "wrong": wrong, "bytes": size}
            print(json.dumps(row))
        return
    name, how = sys.argv[1:3]
    import torch

    CASES[name][0](torch, how == "wrong")
    print(json.dumps({"case": name, "done": True}), flush=True)


main()
