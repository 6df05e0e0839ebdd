// bug: a second context of the driver interface has its own memory, and a kernel there is one past the end
// expect: rule=global-out-of-bounds-write function=fill size=600
#include "driver.h"

__global__ void fill(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *first = zeroed<int>(100);
    fill<<<1, 256>>>(first, 100);
    FINISH();
    CUcontext context = nullptr, previous = nullptr;
    CUdevice device;
    CHECK_DRIVER(DRIVER(cuDeviceGet)(&device, 0));
    // The form that takes no execution affinity, of CUDA 3.2.
    auto create = reinterpret_cast<CUresult (*)(CUcontext *, unsigned, CUdevice)>(entry_point("cuCtxCreate", 3020));
    CHECK_DRIVER(create(&context, 0, device));
    int *second = zeroed<int>(150);
    fill<<<1, 256>>>(second, 150 + bad);
    FINISH();
    print_digest("second", second, 150);
    CHECK(cudaFree(second));
    CHECK_DRIVER(DRIVER(cuCtxPopCurrent)(&previous));
    CHECK_DRIVER(DRIVER(cuCtxDestroy)(context));
    CHECK(cudaSetDevice(0));
    print_digest("first", first, 100);
    CHECK(cudaFree(first));
}
