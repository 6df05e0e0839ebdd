// bug: pinned host memory is written past its end by a kernel
// expect: rule=global-out-of-bounds-write function=report size=128
#include "case.h"

__global__ void report(int *mailbox, int n) {
    int i = threadIdx.x;
    if (i < n)
        mailbox[i] = i * i;  // BUG
}

int main() {
    const int n = 32;
    int *host = nullptr, *device = nullptr;
    CHECK(cudaHostAlloc(&host, n * sizeof(int), cudaHostAllocMapped));
    for (int i = 0; i < n; i++) host[i] = 0;
    CHECK(cudaHostGetDevicePointer(&device, host, 0));
    report<<<1, 64>>>(device, n + bad);
    FINISH();
    std::printf("mailbox %016llx\n", digest_bytes(host, n * sizeof(int)));
    CHECK(cudaFreeHost(host));
}
