// One kernel overruns its buffer and ends; the next one, in the same stream,
// works beside what it left.
#include "watch.h"

extern "C" __global__ void attacker(int *out, int count, Times *times) {
    times->began = now();
    wait_for(&times->may_write);
    for (int i = 0; i < count; i++) out[i] = i;
    __threadfence();
    times->wrote = times->ended = now();
}

extern "C" __global__ void victim(int *out, int count, Times *times, unsigned long long nanoseconds) {
    times->began = now();
    for (int i = 0; i < count; i++) out[i] = 2 * i;
    stay(times, nanoseconds);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *first = make(500), *second = make(500);
    Times *attack = host_times(), *work = host_times();
    load((const void *)victim);
    attacker<<<1, 1>>>(first, 500 + 2 * bad, attack);  // BUG
    victim<<<1, 1>>>(second, 500, work, duration(argc, argv));  // BUG
    // However late the host is, the victim is next.
    *(volatile unsigned long long *)&attack->may_write = 1;
    FINISH();
    print_times(argc, argv, "attacker", attack);
    print_times(argc, argv, "victim", work);
    drop(first);
    drop(second);
    CHECK(cudaFreeHost(attack));
    CHECK(cudaFreeHost(work));
}
