// bug: memory of a context is used after the context, and all of its memory with it, was destroyed
// expect: rule=use-after-free call=cuMemcpyDtoD size=600
#include "copies.h"
#include "driver.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *mine = upload(counting<int>(150));
    use(mine, 150);
    CUcontext context = nullptr;
    CUdevice device;
    CHECK_DRIVER(DRIVER(cuDeviceGet)(&device, 0));
    auto create = reinterpret_cast<CUresult (*)(CUcontext *, unsigned, CUdevice)>(entry_point("cuCtxCreate", 3020));
    CHECK_DRIVER(create(&context, 0, device));
    int *theirs = zeroed<int>(150);
    use(theirs, 150);
    if (bad) CHECK_DRIVER(DRIVER(cuCtxDestroy)(context));
    CHECK(cudaSetDevice(0));
    const CUdeviceptr to = reinterpret_cast<CUdeviceptr>(mine);
    TRY_DRIVER(DRIVER(cuMemcpyDtoD)(to, reinterpret_cast<CUdeviceptr>(theirs), 600));  // BUG
    if (!bad) CHECK_DRIVER(DRIVER(cuCtxDestroy)(context));
    CHECK(cudaSetDevice(0));
    use(mine, 150);
    CHECK(cudaFree(mine));
}
