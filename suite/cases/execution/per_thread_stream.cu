// bug: built for per-thread default streams; a kernel in one of them is one past the end
// build: flags=--default-stream=per-thread
// expect: rule=global-out-of-bounds-write function=fill size=400
#include "case.h"
#include <thread>

__global__ void fill(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = nullptr;
    CHECK(cudaMallocAsync(&data, 400, cudaStreamPerThread));
    fill<<<1, 128>>>(data, 100 + bad);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    std::thread other([&] {
        fill<<<1, 128>>>(data, 50);
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    });
    other.join();
    print_digest("data", data, 100);
    CHECK(cudaFreeAsync(data, cudaStreamPerThread));
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
}
