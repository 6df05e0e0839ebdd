// bug: one of two buffers is chosen by a condition, and it is the shorter one
// expect: rule=global-out-of-bounds-read function=select_source size=240
#include "case.h"

__global__ void select_source(const int *a, const int *b, const int *choose_a, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int *source = choose_a[i] ? a : b;
    out[i] = source[i];  // BUG
}

int main() {
    const int n = 64;
    int *a = upload(counting<int>(n));
    int *b = upload(counting<int>(60));
    std::vector<int> choose_a(n);
    for (int i = 0; i < n; i++) choose_a[i] = i >= 60 || i % 2;
    choose_a[60] = !bad;
    int *out = zeroed<int>(n);
    select_source<<<2, 32>>>(a, b, upload(choose_a), out, n);
    FINISH();
    print_digest("out", out, 60);
}
