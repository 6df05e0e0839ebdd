// Memory bound: a stencil of five points over a grid that no cache holds.
#include "work.h"

__global__ void heat(const float *from, float *to, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x == 0 || y == 0 || x >= n - 1 || y >= n - 1) return;
    int i = y * n + x;
    float around = from[i - 1] + from[i + 1] + from[i - n] + from[i + n];
    to[i] = from[i] + 0.2f * (around - 4.0f * from[i]);
}

__global__ void fill_grid(float *a, float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * n) a[i] = b[i] = number_of(i);
}

struct Memory : Work {
    int n, steps;
    float *from, *to;

    explicit Memory(bool is_small) : n(is_small ? 48 : 8192), steps(is_small ? 2 : 32) {
        size_t count = size_t(n) * n;
        from = device_memory<float>(count);
        to = device_memory<float>(count);
        fill_grid<<<unsigned((count + 255) / 256), 256>>>(from, to, n);
        wait();
    }

    void round() override {
        dim3 block(32, 8), grid((n + 31) / 32, (n + 7) / 8);
        for (int i = 0; i < steps; i++) {
            heat<<<grid, block>>>(from, to, n);
            std::swap(from, to);
        }
        wait();
    }

    uint64_t digest() override { return digest_of(from, size_t(n) * n); }
};

std::unique_ptr<Work> make_memory(bool is_small) { return std::make_unique<Memory>(is_small); }
