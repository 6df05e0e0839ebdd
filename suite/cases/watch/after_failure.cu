// bug: a kernel writes past its buffer after another one failed and the device was reset
// run: protect=watch
// expect: rule=canary-overwritten kernel=overrun while=overrun at=0 size=4000
// also: rule=kernel-failed kernel=fail error=719
// premise: after a failed kernel a reset of the device makes it usable again
#include "watch.h"

extern "C" __global__ void fail() { asm volatile("trap;"); }  // BUG

extern "C" __global__ void overrun(int *out, int count, Times *times, unsigned long long nanoseconds) {
    for (int i = 0; i < count; i++) out[i] = i;
    stay(times, nanoseconds);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    // The guard is there when the kernel fails.
    make(100);
    fail<<<1, 1>>>();  // BUG
    if (cudaDeviceSynchronize() != cudaErrorLaunchFailure) return 1;  // BUG
    CHECK(cudaDeviceReset());
    (void)cudaGetLastError();
    void *memory = nullptr;
    const cudaError_t usable = cudaMalloc(&memory, 64);
    if (usable != cudaSuccess) {
        std::fprintf(stderr, "not runnable: after a failed kernel and a reset the device answers: %s\n",
                     cudaGetErrorString(usable));
        return 77;
    }
    CHECK(cudaFree(memory));
    int *out = make(1000);
    Times *times = host_times();
    overrun<<<1, 1>>>(out, 1000 + bad, times, duration(argc, argv));  // BUG
    FINISH();
    drop(out);
    CHECK(cudaFreeHost(times));
}
