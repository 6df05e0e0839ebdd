// Launches kernels that it is told to launch, a line each, and answers each line
// with an error's number.
#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void endless(volatile int *word) {
    while (*word != 1) {
    }
}

// Sleeps, so that it takes its time on any device.
__global__ void lasting(int *word, int milliseconds) {
    for (int pass = 0; pass < milliseconds; pass++) __nanosleep(1000000);
    *word = 0;
}

// Half of a warp waits for the other half, which waits for it elsewhere.
__global__ void deadlocked() {
    if (threadIdx.x % 32 < 16) asm volatile("bar.warp.sync 0xffffffff;");
    else asm volatile("barrier.sync 0;");
}

__global__ void huge(int *word) {
    if (blockIdx.x == 0x7fffffff) *word = 1;
}

int main() {
    int *word;
    cudaStream_t other;
    auto make = [&] {
        cudaMalloc(&word, 4);
        cudaMemset(word, 0, 4);
        cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
        lasting<<<1, 1, 0, other>>>(word, 1);
        return cudaDeviceSynchronize();
    };
    if (make() != cudaSuccess) return 1;
    std::printf("ready\n");
    std::fflush(stdout);
    char line[64];
    while (std::fgets(line, sizeof line, stdin)) {
        cudaError_t error = cudaSuccess;
        if (!std::strncmp(line, "endless", 7)) {
            endless<<<1, 32>>>(word);
            error = cudaGetLastError();
        } else if (!std::strncmp(line, "deadlock", 8)) {
            deadlocked<<<3, 64>>>();
            error = cudaGetLastError();
        } else if (!std::strncmp(line, "huge", 4)) {
            for (int launch = 0; launch < 4; launch++) huge<<<0x7fffffff, 64>>>(word);
            error = cudaGetLastError();
        } else if (!std::strncmp(line, "short", 5)) {
            lasting<<<1, 1, 0, other>>>(word, 1);
            error = cudaStreamSynchronize(other);
        } else if (!std::strncmp(line, "long", 4)) {
            lasting<<<1, 1, 0, other>>>(word, std::atoi(line + 4));
            error = cudaGetLastError();
        } else if (!std::strncmp(line, "wait", 4)) {
            error = cudaDeviceSynchronize();
        } else if (!std::strncmp(line, "reset", 5)) {
            error = cudaDeviceReset();
            if (error == cudaSuccess) error = make();
        }
        // (An error that was told is not told again.)
        cudaGetLastError();
        std::printf("%d\n", error);
        std::fflush(stdout);
    }
}
