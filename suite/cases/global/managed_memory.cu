// bug: managed memory is read past its end
// expect: rule=global-out-of-bounds-read function=prefix size=400
#include "case.h"

__global__ void prefix(const int *in, int *out, int n) {
    int i = threadIdx.x;
    int sum = 0;
    for (int k = 0; k <= i && k < n; k++)
        sum += in[k];  // BUG
    if (i < n) out[i] = sum;
}

int main() {
    const int n = 100;
    int *in = nullptr, *out = nullptr;
    CHECK(cudaMallocManaged(&in, n * sizeof(int)));
    CHECK(cudaMallocManaged(&out, (n + 1) * sizeof(int)));
    for (int i = 0; i < n; i++) in[i] = i;
    prefix<<<1, 128>>>(in, out, n + bad);
    FINISH();
    std::printf("out %016llx\n", digest_bytes(out, n * sizeof(int)));
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
