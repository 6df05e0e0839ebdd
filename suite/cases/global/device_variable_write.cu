// bug: a __device__ array is written before its first element
// expect: rule=global-out-of-bounds-write function=push size=80
#include "case.h"

__device__ double stack[10];

__global__ void push(int top, int count) {
    for (int k = 0; k < count; k++)
        stack[top - k] = k + 0.5;  // BUG
}

int main() {
    push<<<1, 1>>>(9, 10 + bad);
    FINISH();
    double host[10];
    CHECK(cudaMemcpyFromSymbol(host, stack, sizeof host));
    std::printf("stack %016llx\n", digest_bytes(host, sizeof host));
}
