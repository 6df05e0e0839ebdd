// bug: an array from new[] in a kernel is written past its end by a member function
// expect: rule=global-out-of-bounds-write function=push
#include "case.h"

struct Stack {
    int *items;
    int count;
    __device__ explicit Stack(int capacity) : items(new int[capacity]), count(0) {}
    __device__ ~Stack() { delete[] items; }
    __device__ __noinline__ void push(int item) {
        items[count++] = item;  // BUG
    }
};

__global__ void run(int *out, int n) {
    Stack stack(12);
    for (int i = 0; i < n; i++) stack.push(i + threadIdx.x);
    out[threadIdx.x] = stack.items[11] + stack.count;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(4);
    run<<<1, 4>>>(out, 12 + bad);
    FINISH();
    if (!bad) print_digest("out", out, 4);
    CHECK(cudaFree(out));
}
