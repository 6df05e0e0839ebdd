// A kernel works on its buffer in one stream while another, in a second one,
// writes before the start of it.
#include "watch.h"

extern "C" __global__ void victim(int *out, int count, Times *times, const Times *attack, unsigned long long nanoseconds) {
    times->began = now();
    for (int i = 0; i < count; i++) out[i] = 2 * i;
    wait_for(&attack->wrote);
    stay(times, nanoseconds);
}

extern "C" __global__ void attacker(int *out, int from, Times *times) {
    times->began = now();
    for (int i = 0; i < 8; i++) out[from + i] = 65;
    __threadfence();
    times->wrote = times->ended = now();
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = make(256);
    Times *attack = host_times(), *work = host_times();
    cudaStream_t one, other;
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    load((const void *)attacker);
    victim<<<1, 1, 0, one>>>(out, 256, work, attack, duration(argc, argv));  // BUG
    attacker<<<1, 1, 0, other>>>(out, -2 * bad, attack);  // BUG
    FINISH();
    print_times(argc, argv, "attacker", attack);
    print_times(argc, argv, "victim", work);
    CHECK(cudaStreamDestroy(one));
    CHECK(cudaStreamDestroy(other));
    drop(out);
    CHECK(cudaFreeHost(attack));
    CHECK(cudaFreeHost(work));
}
