// bug: a kernel uses memory that its stream frees before it comes to the kernel; the host waits for nothing between
// run: protect=shadow
// expect: rule=use-after-free function=add size=20000
#include "case.h"

__global__ void add(int *values, int more, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] += more;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 5000, blocks = (n + 255) / 256;
    cudaStream_t stream, other;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&other));
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    int *out = zeroed<int>(n);
    CHECK(cudaDeviceSynchronize());
    for (int round = 0; round < 3; round++) {
        int *values = nullptr;
        CHECK(cudaMallocAsync(&values, n * sizeof(int), stream));
        CHECK(cudaMemsetAsync(values, 0, n * sizeof(int), stream));
        add<<<blocks, 256, 0, stream>>>(values, 1, n);
        CHECK(cudaEventRecord(event, stream));
        CHECK(cudaStreamWaitEvent(other, event));
        add<<<blocks, 256, 0, other>>>(values, 2, n);
        CHECK(cudaEventRecord(event, other));
        CHECK(cudaStreamWaitEvent(stream, event));
        CHECK(cudaMemcpyAsync(out, values, n * sizeof(int), cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaFreeAsync(values, stream));
        if (bad && round == 2) add<<<blocks, 256, 0, stream>>>(values, 3, n);
    }
    FINISH();
    print_digest("out", out, n);
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaFree(out));
}
