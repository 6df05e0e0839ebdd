// bug: the first kernel is right, the second reads past what the first wrote
// expect: rule=global-out-of-bounds-read function=consume size=768
#include "case.h"

__global__ void produce(int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = i ^ 5;
}

__global__ void consume(const int *data, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = data[n - i];  // BUG
}

__global__ void consume_within(const int *data, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = data[n - 1 - i];
}

int main() {
    const int n = 192;
    int *data = zeroed<int>(n), *out = zeroed<int>(n);
    produce<<<3, 64>>>(data, n);
    if (bad)
        consume<<<3, 64>>>(data, out, n);
    else
        consume_within<<<3, 64>>>(data, out, n);
    FINISH();
    print_digest("data", data, n);
    print_digest("out", out + 1, n - 1);
}
