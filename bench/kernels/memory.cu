// Loads and nothing else, from one level of memory each: what checks add where accesses
// are as fast, or as slow, as they can be. (GASan's figures 9 and 11 are of such kernels.)
// And one loop of a load and a store, of which the paper's simulation says that checks make
// it faster (figure 14).
#include "harness.h"

__device__ float sum(float a, float b) { return a + b; }
__device__ double sum(double a, double b) { return a + b; }
__device__ float4 sum(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Each block reads a window of its own again and again, which stays in L1.
template <typename T>
__global__ void near(const T *in, T *out, int window, int rounds) {
    const T *own = in + (size_t)blockIdx.x * window;
    T total = {};
    for (int round = 0; round < rounds; round++)
        for (int i = threadIdx.x; i < window; i += blockDim.x) total = sum(total, own[i]);
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

// All blocks read everything, past L1.
template <typename T>
__global__ void far(const T *in, T *out, long long n, int rounds) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    const long long own = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    T total = {};
    for (int round = 0; round < rounds; round++)
        for (long long i = own; i < n; i += threads) total = sum(total, __ldcg(in + i));
    out[own] = total;
}

// One thread follows pointers from one line of the cache to another one.
template <bool first>
__global__ void chase(void *const *start, long long *out, int steps) {
    void *const *at = start;
    for (int step = 0; step < steps; step++)
        at = (void *const *)(first ? *at : (void *)__ldcg((const unsigned long long *)at));
    *out = at - start;
}

// Rows of few columns become columns: neighbouring threads share lines of the cache.
__global__ void narrow_transpose(const float *in, float *out, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    for (int i = 0; i < columns; i++) out[(size_t)i * rows + row] = in[(size_t)row * columns + i];
}

static const int threads = 256, blocks = 132 * 4;

template <typename T>
static T *zeros(Bench &bench, long long n) {
    T *in = bench.allocate<T>(n);
    // (Sums of zeros are as fast as any others.)
    CHECK(cudaMemset(in, 0, n * sizeof(T)));
    return in;
}

template <typename T>
static void prepare_near(Bench &bench, long long rounds) {
    const int window = 8192 / sizeof(T);
    T *in = zeros<T>(bench, (long long)blocks * window);
    T *out = bench.allocate<T>(blocks * threads);
    bench.keep(out, blocks * threads);
    bench.launch = [=] { near<T><<<blocks, threads>>>(in, out, window, (int)rounds); };
}

// `bytes` are read as often as it takes to read `total`.
template <typename T>
static void prepare_far(Bench &bench, long long bytes, long long total) {
    T *in = zeros<T>(bench, bytes / sizeof(T));
    T *out = bench.allocate<T>(blocks * threads);
    bench.keep(out, blocks * threads);
    const long long n = bytes / sizeof(T), rounds = std::max(1ll, total / bytes);
    bench.launch = [=] { far<T><<<blocks, threads>>>(in, out, n, (int)rounds); };
}

template <typename T>
static void prepare_l2(Bench &bench, long long total) {
    prepare_far<T>(bench, std::min(total, 8ll << 20), total);
}

template <typename T>
static void prepare_dram(Bench &bench, long long total) {
    prepare_far<T>(bench, total, total);
}

// A circle through lines of 128 bytes.
template <bool first, long long bytes>
static void prepare_chase(Bench &bench, long long steps) {
    const long long line = 128 / sizeof(void *), lines = bytes / 128;
    void **in = bench.allocate<void *>(lines * line);
    std::vector<void *> host(lines * line);
    // A step that has no factor with the number of lines, a power of two.
    const long long stride = lines > 8192 ? 5077 : 37;
    for (long long at = 0; at < lines; at++)
        host[at * line] = in + (at + stride) % lines * line;
    CHECK(cudaMemcpy(in, host.data(), host.size() * sizeof(void *), cudaMemcpyHostToDevice));
    long long *out = bench.allocate<long long>(1);
    bench.keep(out, 1);
    bench.launch = [=] { chase<first><<<1, 1>>>(in, out, (int)steps); };
}

static void prepare_narrow_transpose(Bench &bench, long long rows) {
    const int columns = 34;
    float *in = zeros<float>(bench, rows * columns), *out = bench.allocate<float>(rows * columns);
    bench.keep(out, rows * columns);
    const int blocks = (int)((rows + threads - 1) / threads);
    bench.launch = [=] { narrow_transpose<<<blocks, threads>>>(in, out, (int)rows, columns); };
}

static const Entry entries[] = {
    {"l1_bandwidth_32", 2000, 2, prepare_near<float>},
    {"l1_bandwidth_64", 2000, 2, prepare_near<double>},
    {"l1_bandwidth_128", 2000, 2, prepare_near<float4>},
    {"l2_bandwidth_32", 2ll << 30, 1 << 16, prepare_l2<float>},
    {"l2_bandwidth_64", 2ll << 30, 1 << 16, prepare_l2<double>},
    {"l2_bandwidth_128", 2ll << 30, 1 << 16, prepare_l2<float4>},
    {"dram_bandwidth_32", 2ll << 30, 1 << 16, prepare_dram<float>},
    {"dram_bandwidth_128", 2ll << 30, 1 << 16, prepare_dram<float4>},
    {"l1_latency", 1 << 16, 100, prepare_chase<true, 16 << 10>},
    {"l2_latency", 1 << 14, 100, prepare_chase<false, 8 << 20>},
    {"dram_latency", 1 << 13, 100, prepare_chase<false, 512 << 20>},
    {"narrow_transpose", 4 << 20, 1000, prepare_narrow_transpose},
};

int main(int argc, char **argv) {
    return bench_main(argc, argv, entries, sizeof entries / sizeof entries[0]);
}
