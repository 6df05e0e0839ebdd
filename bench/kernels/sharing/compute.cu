// Compute bound: products of matrices through shared memory, about as many
// blocks as a large GPU runs at a time.
#include "work.h"

static const int TILE = 16;

__global__ void multiply(const float *a, const float *b, float *c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        left[y][x] = a[row * n + k + x];
        right[y][x] = b[(k + y) * n + column];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; i++) sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    // So that repeated products stay finite.
    c[row * n + column] = sum * (2.0f / n);
}

__global__ void fill_matrix(float *a, int count, unsigned seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) a[i] = number_of(i + seed);
}

struct Compute : Work {
    int n, products;
    float *a, *b, *c;

    explicit Compute(bool is_small) : n(is_small ? 32 : 512), products(is_small ? 2 : 64) {
        int count = n * n, blocks = (count + 255) / 256;
        a = device_memory<float>(count);
        b = device_memory<float>(count);
        c = device_memory<float>(count);
        fill_matrix<<<blocks, 256>>>(a, count, 1);
        fill_matrix<<<blocks, 256>>>(b, count, 7);
        wait();
    }

    void round() override {
        dim3 grid(n / TILE, n / TILE), block(TILE, TILE);
        for (int i = 0; i < products; i++) {
            multiply<<<grid, block>>>(a, b, c, n);
            std::swap(a, c);
        }
        wait();
    }

    uint64_t digest() override { return digest_of(a, size_t(n) * n); }
};

std::unique_ptr<Work> make_compute(bool is_small) { return std::make_unique<Compute>(is_small); }
