// Puts kernels that each end in time into many streams, without end, or makes rounds
// of small ones and waits for each: the first argument says which.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Sleeps, so that it takes its time on any device.
__global__ void lasting(int *word, int microseconds) {
    for (int pass = 0; pass < microseconds; pass += 100) __nanosleep(100000);
    if (threadIdx.x == 0 && blockIdx.x == 0) atomicAdd(word, 1);
}

#define CHECK(call)                                                              \
    do {                                                                         \
        cudaError_t error = (call);                                              \
        if (error != cudaSuccess) {                                              \
            std::printf("error %d in line %d\n", error, __LINE__);               \
            std::fflush(stdout);                                                 \
            return 1;                                                            \
        }                                                                        \
    } while (0)

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    bool is_long = !std::strcmp(argv[1], "long"), is_flood = is_long || !std::strcmp(argv[1], "small");
    const int count = is_flood ? 16 : 1;
    int *word;
    cudaStream_t streams[16];
    CHECK(cudaMalloc(&word, 4));
    CHECK(cudaMemset(word, 0, 4));
    for (int at = 0; at < count; at++) CHECK(cudaStreamCreateWithFlags(&streams[at], cudaStreamNonBlocking));
    lasting<<<1, 32, 0, streams[0]>>>(word, 100);
    CHECK(cudaDeviceSynchronize());
    std::printf("ready\n");
    std::fflush(stdout);
    if (is_flood) {
        for (int launch = 0;; launch++) {
            if (is_long) lasting<<<64, 64, 0, streams[launch % count]>>>(word, 50000);
            else lasting<<<1, 32, 0, streams[launch % count]>>>(word, 100);
            CHECK(cudaGetLastError());
        }
    }
    // A round for each line, which is answered with the milliseconds that it took.
    char line[64];
    int before = 1;
    while (std::fgets(line, sizeof line, stdin)) {
        auto start = std::chrono::steady_clock::now();
        int now = 0;
        for (int launch = 0; launch < 4; launch++) {
            lasting<<<2, 32, 0, streams[0]>>>(word, 100);
            CHECK(cudaStreamSynchronize(streams[0]));
        }
        CHECK(cudaMemcpy(&now, word, 4, cudaMemcpyDeviceToHost));
        if (now != before + 4) return 3;
        before = now;
        auto took = std::chrono::steady_clock::now() - start;
        std::printf("%d\n", (int)std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
        std::fflush(stdout);
    }
}
