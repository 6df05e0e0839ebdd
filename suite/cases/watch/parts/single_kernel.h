// One kernel overruns its buffer, and goes on with its work.
#include "watch.h"

extern "C" __global__ void overrun(int *out, int count, Times *times, unsigned long long nanoseconds) {
    times->began = now();
    for (int i = 0; i < count; i++) out[i] = i;
    __threadfence();
    times->wrote = now();
    stay(times, nanoseconds);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = make(1000);
    Times *times = host_times();
    overrun<<<1, 1>>>(out, 1000 + bad, times, duration(argc, argv));  // BUG
    FINISH();
    print_times(argc, argv, "overrun", times);
    drop(out);
    CHECK(cudaFreeHost(times));
}
