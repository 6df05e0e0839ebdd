// about: launches by kernels: a sort that divides itself, a tail launch that repeats itself, copies by kernels
// build: arch=80 rdc
// feature: dynamic parallelism
#include "case.h"
#include <algorithm>
#include <cstdint>

constexpr int kSmall = 16;

// Sorts [low, high): partitions by one thread and launches itself on both
// halves, in streams of their own.
__global__ void divide(int *data, int low, int high, int depth) {
    if (high - low <= kSmall || depth == 12) {
        for (int i = low + 1; i < high; i++) {
            const int value = data[i];
            int j = i;
            for (; j > low && data[j - 1] > value; j--) data[j] = data[j - 1];
            data[j] = value;
        }
        return;
    }
    const int pivot = data[(low + high) / 2];
    int left = low, right = high - 1;
    while (left <= right) {
        while (data[left] < pivot) left++;
        while (data[right] > pivot) right--;
        if (left <= right) {
            const int value = data[left];
            data[left++] = data[right];
            data[right--] = value;
        }
    }
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    divide<<<1, 1, 0, stream>>>(data, low, right + 1, depth + 1);
    divide<<<1, 1>>>(data, left, high, depth + 1);
    cudaStreamDestroy(stream);
}

__global__ void add(int *sums, int value) { atomicAdd(&sums[threadIdx.x], value); }

// Every block launches a grid; the last launch of a step is the next step.
__global__ void step(int *sums, int left) {
    if (threadIdx.x == 0) add<<<1, 8>>>(sums, int(blockIdx.x) + 1);
    if (threadIdx.x == 0 && blockIdx.x == 0 && left > 1)
        step<<<4, 32, 0, cudaStreamTailLaunch>>>(sums, left - 1);
}

// What a kernel copies and fills is in order with what it launches.
__global__ void arrange(int *from, int *to) {
    cudaMemsetAsync(from, 0, 8 * sizeof(int), 0);
    add<<<1, 8>>>(from, 7);
    cudaMemcpyAsync(to, from, 8 * sizeof(int), cudaMemcpyDeviceToDevice, 0);
    add<<<1, 8>>>(from, 1);
}

static int check(const char *what, const int *device, const std::vector<int> &wanted) {
    std::vector<int> got(wanted.size());
    CHECK(cudaMemcpy(got.data(), device, got.size() * sizeof(int), cudaMemcpyDeviceToHost));
    print_digest(what, device, got.size());
    return got != wanted;
}

int main() {
    int wrong = 0;
    std::vector<int> values(700);
    for (size_t i = 0; i < values.size(); i++) values[i] = int((uint32_t(i) * 2654435761u) >> 16);
    int *data = upload(values);
    divide<<<1, 1>>>(data, 0, int(values.size()), 0);
    FINISH();
    std::sort(values.begin(), values.end());
    wrong += check("sorted", data, values);
    int *sums = zeroed<int>(8), *copy = zeroed<int>(8);
    step<<<4, 32>>>(sums, 50);
    FINISH();
    wrong += check("steps", sums, std::vector<int>(8, 50 * 10));
    arrange<<<1, 1>>>(sums, copy);
    FINISH();
    wrong += check("filled", sums, std::vector<int>(8, 8));
    wrong += check("copied", copy, std::vector<int>(8, 7));
    std::printf("%s\n", wrong ? "FAILED" : "all as on the host");
    CHECK(cudaFree(data));
    CHECK(cudaFree(sums));
    CHECK(cudaFree(copy));
    return wrong;
}
