// Kernels that wait for what the program puts into another stream later: an operation of
// that stream opens the gate behind which all others stand.

#include <chrono>
#include <cstdio>
#include <thread>

__global__ void wait_for(volatile int *gate, int round) {
    while (*gate != round) {
    }
}

__global__ void add(int *sum, int number) {
    *sum += number;
}

int main() {
    // (Loading code may wait for what runs.)
    cudaFuncAttributes attributes;
    cudaFuncGetAttributes(&attributes, wait_for);
    cudaFuncGetAttributes(&attributes, add);
    int *memory;
    cudaMalloc(&memory, 16);
    cudaMemset(memory, 0, 16);
    int *gate = memory, *sum = memory + 1, *other = memory + 2;
    cudaStream_t behind, beside, opener;
    for (cudaStream_t *stream : {&behind, &beside, &opener}) {
        cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
    }
    cudaEvent_t passed;
    cudaEventCreateWithFlags(&passed, cudaEventDisableTiming);
    int *pinned;
    cudaMallocHost(&pinned, 8);
    for (int round = 1; round <= 4; round++) {
        wait_for<<<1, 1, 0, behind>>>(gate, round);
        for (int piece = 0; piece < 40; piece++) {
            add<<<1, 1, 0, behind>>>(sum, piece);
            if (piece % 8 == 0) {
                cudaEventRecord(passed, behind);
                cudaStreamWaitEvent(beside, passed);
                add<<<1, 1, 0, beside>>>(other, 1);
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(4));
        }
        cudaMemcpyAsync(pinned, sum, 8, cudaMemcpyDeviceToHost, behind);
        void *freed;
        cudaMallocAsync(&freed, 1024, behind);
        cudaFreeAsync(freed, behind);
        printf("held %d %d ", cudaStreamQuery(behind) == cudaErrorNotReady,
               cudaEventQuery(passed) == cudaErrorNotReady);
        cudaMemcpyAsync(gate, &round, 4, cudaMemcpyHostToDevice, opener);
        printf("%s ", cudaGetErrorString(cudaStreamSynchronize(behind)));
        printf("%s ", cudaGetErrorString(cudaStreamSynchronize(beside)));
        int last = 0;
        cudaMemcpy(&last, other, 4, cudaMemcpyDeviceToHost);
        printf("sum %d other %d\n", pinned[0], last);
    }
}
