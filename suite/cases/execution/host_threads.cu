// bug: four host threads launch at once, and one of them has a count one too large
// expect: rule=global-out-of-bounds-write function=fill size=800
#include "case.h"
#include <thread>

__global__ void fill(int *data, int n, int value) {
    int i = threadIdx.x;
    if (i < n) data[i] = value + i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *buffers[4];
    for (int *&buffer : buffers) buffer = zeroed<int>(200);
    std::vector<std::thread> threads;
    for (int k = 0; k < 4; k++)
        threads.emplace_back([&, k] {
            cudaStream_t stream;
            CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            for (int round = 0; round < 20; round++) {
                fill<<<1, 256, 0, stream>>>(buffers[k], k == 2 && round == 11 ? 200 + bad : 200, k);
                CHECK(cudaGetLastError());
            }
            CHECK(cudaStreamSynchronize(stream));
            CHECK(cudaStreamDestroy(stream));
        });
    for (std::thread &thread : threads) thread.join();
    for (int *buffer : buffers) {
        print_digest("buffer", buffer, 200);
        CHECK(cudaFree(buffer));
    }
}
