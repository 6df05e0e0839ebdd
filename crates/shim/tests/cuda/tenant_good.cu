// What a program of a tenant does: copies of all kinds, streams, events,
// variables, shared memory, functions of the runtime that ask about kernels. It
// prints a sum of all that it computes, which does not depend on the device.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t error = (call);                                                      \
        if (error != cudaSuccess) {                                                      \
            printf("%s: %s\n", #call, cudaGetErrorString(error));                        \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

__device__ unsigned counter;
__device__ unsigned table[64] = {3, 1, 4, 1, 5, 9, 2, 6};

// Initializers that hold addresses.
__device__ unsigned *places[2] = {table + 2, &counter};
__constant__ unsigned *fixed = table + 1;

__global__ void step(unsigned *data, int n, unsigned round) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) {
        data[at] = data[at] * 1664525u + 1013904223u + round + table[at % 8] + places[0][at % 4] + fixed[at % 3];
    }
}

__global__ void sum(const unsigned *data, int n, unsigned *out) {
    __shared__ unsigned partial[128];
    unsigned own = 0;
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x) {
        own += data[at];
    }
    partial[threadIdx.x] = own;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            partial[threadIdx.x] += partial[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        atomicAdd(out, partial[0]);
        atomicAdd(&counter, 1);
    }
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 3;
    const int n = 5000;
    std::vector<unsigned> host(n);
    for (int at = 0; at < n; at++) {
        host[at] = at * 2654435761u;
    }
    unsigned *data, *other, *out;
    CHECK(cudaMalloc(&data, n * 4));
    CHECK(cudaMalloc(&other, n * 4));
    CHECK(cudaMalloc(&out, 4));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaEvent_t before, after;
    CHECK(cudaEventCreate(&before));
    CHECK(cudaEventCreate(&after));
    unsigned whole = 0;
    for (int round = 0; round < rounds; round++) {
        CHECK(cudaMemcpy(data, host.data(), n * 4, cudaMemcpyHostToDevice));
        CHECK(cudaEventRecord(before, stream));
        step<<<(n + 127) / 128, 128, 0, stream>>>(data, n, round);
        CHECK(cudaGetLastError());
        // The default stream waits for the other one.
        CHECK(cudaMemcpyAsync(other, data, n * 4, cudaMemcpyDeviceToDevice, 0));
        CHECK(cudaMemsetAsync(out, 0, 4, stream));
        sum<<<3, 128, 0, stream>>>(other, n, out);
        CHECK(cudaEventRecord(after, stream));
        CHECK(cudaEventSynchronize(after));
        unsigned result;
        CHECK(cudaMemcpy(&result, out, 4, cudaMemcpyDeviceToHost));
        whole = whole * 31 + result;
        CHECK(cudaMemcpyAsync(host.data(), other, n * 4, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
    unsigned launched = 0;
    CHECK(cudaMemcpyFromSymbol(&launched, counter, 4));
    unsigned row[8] = {2, 7, 1, 8, 2, 8, 1, 8};
    CHECK(cudaMemcpyToSymbol(table, row, sizeof row));
    step<<<1, 64>>>(data, 64, 0);
    CHECK(cudaDeviceSynchronize());

    // Rows.
    size_t pitch;
    unsigned char *rows;
    CHECK(cudaMallocPitch(&rows, &pitch, 100, 7));
    CHECK(cudaMemset2D(rows, pitch, 5, 100, 7));
    unsigned char square[7][10];
    for (int y = 0; y < 7; y++) {
        for (int x = 0; x < 10; x++) {
            square[y][x] = y * 10 + x;
        }
    }
    CHECK(cudaMemcpy2D(rows + 3, pitch, square, 10, 10, 7, cudaMemcpyHostToDevice));
    unsigned char back[7][20];
    CHECK(cudaMemcpy2D(back, 20, rows, pitch, 20, 7, cudaMemcpyDeviceToHost));
    unsigned bytes = 0;
    for (int y = 0; y < 7; y++) {
        for (int x = 0; x < 20; x++) {
            bytes = bytes * 17 + back[y][x];
        }
    }
    CHECK(cudaMemcpy(host.data(), data, 64 * 4, cudaMemcpyDeviceToHost));
    for (int at = 0; at < 64; at++) {
        whole = whole * 31 + host[at];
    }
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, sum));
    int blocks;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum, 128, 0));
    cudaPointerAttributes pointer;
    CHECK(cudaPointerGetAttributes(&pointer, data + 5));
    size_t available, total;
    CHECK(cudaMemGetInfo(&available, &total));
    float milliseconds = -1;
    CHECK(cudaEventElapsedTime(&milliseconds, before, after));
    printf("%08x %08x %u shared %zu type %d %s\n", whole, bytes, launched,
           attributes.sharedSizeBytes, pointer.type,
           blocks > 0 && available <= total && milliseconds >= 0 ? "ok" : "wrong");
    CHECK(cudaEventDestroy(before));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(data));
    CHECK(cudaFree(other));
    CHECK(cudaFree(out));
    return 0;
}
