// bug: a kernel reads a buffer that went with the device's context
// run: protect=pages
// expect: rule=kernel-failed kernel=_Z4copyPKiPi error=700 size=4096
#include "failed.h"

__global__ void copy(const int *from, int *to) { to[threadIdx.x] = from[threadIdx.x]; }  // BUG

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *from = upload(counting<int>(1024)), *to = zeroed<int>(1024);
    copy<<<1, 1024>>>(from, to);
    FINISH();
    print_digest("to", to, 1024);
    CHECK(cudaDeviceReset());
    int *old = from;
    from = upload(counting<int>(1024)), to = zeroed<int>(1024);
    copy<<<1, 1024>>>(bad ? old : from, to);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    print_digest("to", to, 1024);
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
}
