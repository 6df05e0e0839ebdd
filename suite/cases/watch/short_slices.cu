// bug: one kernel of many writes past its buffer with its last instruction
// run: protect=watch watch-slice=1 launch-backtraces=100
// expect: rule=canary-overwritten kernel=stray at=0 size=256
//
// The guard's slices end all the time: beside a kernel, just when it ends, and
// between two. Each kernel is waited for, so it and no other is to be named.
#include "case.h"

// So that another slice is on the device when it ends.
__device__ int busy(int turns) {
    int value = threadIdx.x;
    for (int i = 0; i < turns; i++) value = value * 1664525 + 1013904223;
    return value;
}

extern "C" __global__ void clean(int *out, int count, int turns) {
    out[count - 1] = busy(turns);
}

extern "C" __global__ void stray(int *out, int count, int turns) {
    out[count - 1] = busy(turns);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out[40];
    for (int i = 0; i < 40; i++) {
        out[i] = zeroed<int>(64);
        clean<<<1, 1>>>(out[i], 64, i * 500);
        FINISH();
    }
    stray<<<1, 1>>>(out[20], 64 + bad, 5000);  // BUG
    FINISH();
    for (int i = 0; i < 40; i++) {
        clean<<<1, 1>>>(out[i], 64, i * 500);
        FINISH();
    }
    for (int *each : out) {
        print_digest("out", each, 64);
        CHECK(cudaFree(each));
    }
}
