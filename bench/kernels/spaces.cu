// Kernels that live off one memory space each: what its checks cost.
#include "harness.h"

static int blocks_for(long long n, int threads) {
    return static_cast<int>((n + threads - 1) / threads);
}

__global__ void set_words(int *out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = static_cast<int>(static_cast<unsigned>(i) * 2654435761u >> 7);
}

static int *words(Bench &bench, long long n) {
    int *out = bench.allocate<int>(n);
    set_words<<<blocks_for(n, 256), 256>>>(out, n);
    return out;
}

// ---- shared memory ------------------------------------------------------------

// Sums of all that come before, in each block.
__global__ void shared_scan(const int *in, int *out, int n) {
    __shared__ int sums[2][256];
    int i = blockIdx.x * 256 + threadIdx.x, at = threadIdx.x, side = 0;
    sums[0][at] = i < n ? in[i] : 0;
    __syncthreads();
    for (int distance = 1; distance < 256; distance *= 2) {
        int sum = sums[side][at];
        if (at >= distance) sum += sums[side][at - distance];
        side = 1 - side;
        sums[side][at] = sum;
        __syncthreads();
    }
    if (i < n) out[i] = sums[side][at];
}

static void prepare_shared_scan(Bench &bench, long long n) {
    int *in = words(bench, n), *out = bench.allocate<int>(n);
    bench.keep(out, n);
    bench.launch = [=] { shared_scan<<<blocks_for(n, 256), 256>>>(in, out, n); };
}

// A histogram of the block's own in dynamic shared memory, where data says.
__global__ void shared_counts(const int *in, int *out, int n, int bins) {
    extern __shared__ int counts[];
    for (int i = threadIdx.x; i < bins; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&counts[(unsigned)in[i] % (unsigned)bins], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < bins; i += blockDim.x) atomicAdd(&out[i], counts[i]);
}

static void prepare_shared_counts(Bench &bench, long long n) {
    const int bins = 1024;
    int *in = words(bench, n), *out = bench.allocate<int>(bins);
    bench.keep(out, bins);
    bench.reset = [=] { CHECK(cudaMemset(out, 0, bins * sizeof(int))); };
    int blocks = std::min(blocks_for(n, 256), 132 * 8);
    bench.launch = [=] {
        shared_counts<<<blocks, 256, bins * sizeof(int)>>>(in, out, n, bins);
    };
}

// ---- local memory -------------------------------------------------------------

// Each thread sorts sixteen numbers by counting how many are less.
__global__ void local_ranks(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 16) return;
    int sorted[16];
    for (int k = 0; k < 16; k++) sorted[k] = 0;
    for (int k = 0; k < 16; k++) {
        int own = in[i + k * (n / 16)], rank = 0;
        for (int other = 0; other < 16; other++) {
            int value = in[i + other * (n / 16)];
            rank += value < own || (value == own && other < k);
        }
        sorted[rank & 15] = own;
    }
    for (int k = 0; k < 16; k++) out[i + k * (n / 16)] = sorted[k];
}

static void prepare_local_ranks(Bench &bench, long long n) {
    int *in = words(bench, n), *out = bench.allocate<int>(n);
    bench.keep(out, n / 16 * 16);
    bench.launch = [=] { local_ranks<<<blocks_for(n / 16, 256), 256>>>(in, out, n); };
}

// ---- constants ----------------------------------------------------------------

__constant__ int table[256];

// Walks through a table in constant memory, where data says.
__global__ void constant_walk(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int at = in[i / 32] & 255;
    for (int k = 0; k < 16; k++) at = table[at & 255] + k;
    out[i] = at;
}

static void prepare_constant_walk(Bench &bench, long long n) {
    std::vector<int> host(256);
    for (int i = 0; i < 256; i++) host[i] = (i * 167 + 13) & 255;
    CHECK(cudaMemcpyToSymbol(table, host.data(), sizeof table));
    int *in = words(bench, n / 32 + 1), *out = bench.allocate<int>(n);
    bench.keep(out, n);
    bench.launch = [=] { constant_walk<<<blocks_for(n, 256), 256>>>(in, out, n); };
}

// ---- parameters ---------------------------------------------------------------

struct Weights {
    int values[64];
};

// The same, through an array that is a parameter.
__global__ void parameter_walk(const int *in, int *out, int n, const __grid_constant__ Weights weights) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int at = in[i / 32] & 63;
    for (int k = 0; k < 16; k++) at = weights.values[at & 63] + k;
    out[i] = at;
}

static void prepare_parameter_walk(Bench &bench, long long n) {
    Weights weights;
    for (int i = 0; i < 64; i++) weights.values[i] = (i * 39 + 5) & 63;
    int *in = words(bench, n / 32 + 1), *out = bench.allocate<int>(n);
    bench.keep(out, n);
    bench.launch = [=] { parameter_walk<<<blocks_for(n, 256), 256>>>(in, out, n, weights); };
}

static const Entry entries[] = {
    {"shared_scan", 1 << 24, 5000, prepare_shared_scan},
    {"shared_counts", 1 << 26, 5000, prepare_shared_counts},
    {"local_ranks", 1 << 24, 5000, prepare_local_ranks},
    {"constant_walk", 1 << 25, 5000, prepare_constant_walk},
    {"parameter_walk", 1 << 25, 5000, prepare_parameter_walk},
};

int main(int argc, char **argv) {
    return bench_main(argc, argv, entries, sizeof entries / sizeof entries[0]);
}
