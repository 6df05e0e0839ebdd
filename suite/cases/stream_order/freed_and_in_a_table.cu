// bug: a kernel uses a buffer, through a pointer in memory, that its stream has freed just before
// expect: rule=use-after-free function=scatter size=512
#include "case.h"

// Nothing waits between free and use. A kernel of another stream, which the free waits for,
// and one that was launched before the free may use the buffer.
__global__ void scatter(int *const *where, int value) {
    where[0][threadIdx.x] += value;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    cudaStream_t stream, other;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    cudaEvent_t used;
    CHECK(cudaEventCreate(&used));
    int **where = zeroed<int *>(1);
    int *last = zeroed<int>(128);
    for (int round = 0; round < 3; round++) {
        int *data = nullptr;
        CHECK(cudaMallocAsync(&data, 512, stream));
        CHECK(cudaMemsetAsync(data, round, 512, stream));
        CHECK(cudaMemcpyAsync(where, &data, sizeof data, cudaMemcpyHostToDevice, stream));
        scatter<<<1, 128, 0, stream>>>(where, 1);
        CHECK(cudaEventRecord(used, stream));
        CHECK(cudaStreamWaitEvent(other, used, 0));
        scatter<<<1, 128, 0, other>>>(where, 2);
        CHECK(cudaEventRecord(used, other));
        CHECK(cudaStreamWaitEvent(stream, used, 0));
        CHECK(cudaMemcpyAsync(last, data, 512, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaFreeAsync(data, stream));
        if (round == 2 && bad) scatter<<<1, 128, 0, stream>>>(where, 4);
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGetLastError());
    print_digest("last", last, 128);
    CHECK(cudaEventDestroy(used));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaFree(where));
    CHECK(cudaFree(last));
}
