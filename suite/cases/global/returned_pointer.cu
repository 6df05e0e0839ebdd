// bug: a function returns a pointer, and the caller steps past its buffer
// expect: rule=global-out-of-bounds-write function=mark size=224
#include "case.h"

__device__ __noinline__ int *pick(int *left, int *right, int which) {
    return which & 1 ? right : left;
}

__global__ void mark(int *left, int *right, int n) {
    int i = threadIdx.x;
    int *target = pick(left, right, i);
    if (i / 2 < n)
        target[i / 2] = i;  // BUG
}

int main() {
    const int n = 64;
    int *left = zeroed<int>(n);
    int *right = zeroed<int>(n - 8);
    mark<<<1, 128>>>(left, right, n - 8 + bad);
    FINISH();
    print_digest("left", left, n - 8);
    print_digest("right", right, n - 8);
}
