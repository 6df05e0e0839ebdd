// bug: an allocation of zero bytes gives no memory, and a kernel uses it
// expect: rule=invalid-pointer function=fill
#include "case.h"

__global__ void fill(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = nullptr, *out = zeroed<int>(32);
    CHECK(cudaMalloc(&data, 0));
    fill<<<1, 32>>>(out, 32);
    fill<<<1, 32>>>(data, bad);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(data));
    CHECK(cudaFree(out));
}
