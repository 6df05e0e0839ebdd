// bug: the driver's set of 32-bit words is given bytes instead of words
// expect: rule=copy-out-of-bounds-write call=cuMemsetD32 size=256
#include "copies.h"
#include "driver.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = zeroed<int>(64);
    auto set = DRIVER(cuMemsetD32);
    TRY_DRIVER(set(reinterpret_cast<CUdeviceptr>(data), 7, bad ? 256 : 64));  // BUG
    use(data, 64);
    CHECK(cudaFree(data));
}
