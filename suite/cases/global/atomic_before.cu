// bug: a counter before the first one is incremented, without using the result
// expect: rule=global-out-of-bounds-atomic function=count size=128
#include "case.h"

__global__ void count(int *counters, const int *labels, int n) {
    int i = threadIdx.x;
    if (i < n)
        atomicMax(counters + labels[i], i);  // BUG
}

int main() {
    const int n = 96;
    std::vector<int> labels(n);
    for (int i = 0; i < n; i++) labels[i] = i % 32;
    if (bad) labels[40] = -1;
    int *counters = zeroed<int>(32);
    count<<<1, 96>>>(counters, upload(labels), n);
    FINISH();
    print_digest("counters", counters, 32);
}
