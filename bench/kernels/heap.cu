// Device-side malloc and free: each thread allocates, writes, and frees (GMOD,
// PACT 2018, table 1 and section 6.2, after Vinkler and Havran: alloc-dealloc
// and alloc-cycle-dealloc), with 1 K to 1 M threads.
#include "harness.h"

static const size_t HEAP = size_t(1) << 30;
static const int BYTES = 48, CYCLES = 5;

__device__ unsigned *take(unsigned seed, unsigned *failed) {
    unsigned *block = static_cast<unsigned *>(malloc(BYTES));
    if (!block) {
        atomicAdd(failed, 1u);
        return nullptr;
    }
    block[0] = seed;
    block[BYTES / 4 - 1] = seed * 3;
    return block;
}

// Result: how many allocations failed, and what the blocks held.
__global__ void alloc_dealloc(unsigned *out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (unsigned *block = take(unsigned(i), out)) {
        out[1 + i] = block[0] + block[BYTES / 4 - 1];
        free(block);
    }
}

__global__ void alloc_cycle_dealloc(unsigned *out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned sum = 0;
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        if (unsigned *block = take(unsigned(i) + cycle, out)) {
            sum = sum * 5 + block[0] + block[BYTES / 4 - 1];
            free(block);
        }
    }
    out[1 + i] = sum;
}

template <void kernel(unsigned *, long long)>
static void prepare(Bench &bench, long long threads) {
    unsigned *out = bench.allocate<unsigned>(threads + 1);
    bench.keep(out, threads + 1);
    bench.reset = [=] { CHECK(cudaMemset(out, 0, (threads + 1) * sizeof(unsigned))); };
    bench.launch = [=] { kernel<<<unsigned((threads + 255) / 256), 256>>>(out, threads); };
}

#define SIZES(name, kernel)                   \
    {name "_1k", 1 << 10, 64, prepare<kernel>},   \
    {name "_4k", 1 << 12, 128, prepare<kernel>},  \
    {name "_16k", 1 << 14, 192, prepare<kernel>}, \
    {name "_64k", 1 << 16, 256, prepare<kernel>}, \
    {name "_256k", 1 << 18, 512, prepare<kernel>}, \
    {name "_1m", 1 << 20, 1024, prepare<kernel>}

static const Entry ENTRIES[] = {
    SIZES("alloc_dealloc", alloc_dealloc),
    SIZES("alloc_cycle_dealloc", alloc_cycle_dealloc),
};

int main(int argc, char **argv) {
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, HEAP));
    return bench_main(argc, argv, ENTRIES, sizeof(ENTRIES) / sizeof(ENTRIES[0]));
}
