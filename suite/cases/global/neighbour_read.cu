// bug: a read runs out of its buffer and deep into a live neighbour
// expect: rule=global-out-of-bounds-read function=sum_window size=4096
#include "case.h"

__global__ void sum_window(const int *in, long long start, int *out) {
    int sum = 0;
    for (int k = 0; k < 8; k++)
        sum += in[start + k];  // BUG
    *out = sum;
}

int main() {
    int *in = upload(counting<int>(1024));
    int *other = upload(counting<int>(1024));
    int *out = zeroed<int>(1);
    sum_window<<<1, 1>>>(in, bad ? other - in + 100 : 1024 - 8, out);
    FINISH();
    if (!bad) print_digest("out", out, 1);
    CHECK(cudaFree(other));
}
