// bug: a function from a table of pointers writes past the local array that it gets
// expect: rule=local-out-of-bounds-write function=shift_up size=32
#include "case.h"

typedef void (*Step)(int *values, int n);

__device__ __noinline__ void add_one(int *values, int n) {
    for (int i = 0; i < n; i++) values[i] += 1;
}

__device__ __noinline__ void shift_up(int *values, int n) {
    for (int i = n; i > 0; i--) values[i] = values[i - 1];  // BUG
}

__device__ Step steps[2] = {add_one, shift_up};

__global__ void run(const int *order, int *out, int n) {
    int values[8];
    int behind[8];
    for (int i = 0; i < 8; i++) values[i] = threadIdx.x + i;
    for (int i = 0; i < 8; i++) behind[i] = order[i & 1];
    for (int i = 0; i < 2; i++) steps[order[i]](values, n);
    steps[order[0]](behind, 8);
    int sum = 0;
    for (int i = 0; i < 8; i++) sum += values[i] * (i + 1) + behind[i];
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *order = upload(std::vector<int>{0, 1});
    int *out = zeroed<int>(32);
    run<<<1, 32>>>(order, out, bad ? 8 : 7);
    FINISH();
    print_digest("out", out, bad ? 0 : 32);
    CHECK(cudaFree(order));
    CHECK(cudaFree(out));
}
