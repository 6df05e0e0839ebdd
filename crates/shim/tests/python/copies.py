"""Copies past the end of a device buffer, from nested Python functions, in the
main thread and in another one."""

import ctypes
import sys
import threading

cuda = ctypes.CDLL("libcuda.so.1")


def check(status):
    if status != 0:
        raise SystemExit(f"CUDA error {status}")


class Buffer:
    def __init__(self, size):
        self.address = ctypes.c_uint64()
        check(cuda.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(size)))

    def upload(self, data):
        return cuda.cuMemcpyHtoD_v2(self.address, data, ctypes.c_size_t(len(data)))  # here

    def free(self):
        check(cuda.cuMemFree_v2(self.address))


def größer(buffer, data):
    # C code of the interpreter lies between this frame and the lambda's.
    return sorted([1], key=lambda _: buffer.upload(data))  # sorted


def each(buffer, data):
    yield 1
    größer(buffer, data)  # generator
    yield 2


def deep(buffer, data, n):
    if n:
        return deep(
            buffer, data, n - 1  # several lines
        )
    return buffer.upload(data)  # deepest


def main():
    check(cuda.cuInit(0))
    context = ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
    buffer = Buffer(64)
    data = b"x" * (64 if "good" in sys.argv else 80)
    for _ in each(buffer, data):  # loop
        pass

    def work():
        check(cuda.cuCtxSetCurrent(context))
        deep(buffer, data, 2)  # thread

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    buffer.free()


main()  # module
