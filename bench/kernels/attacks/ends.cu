// Kernels that end their context, and kernels that do not end.
#include "attack.cuh"
#include <cassert>
#include <chrono>
#include <thread>

__global__ void attack_trap(const uint32_t *own) {
    if (own[threadIdx.x] == 0) asm volatile("trap;");
}

__global__ void attack_assert(const uint32_t *own) { assert(own[threadIdx.x] != 0); }

static const char BREAKPOINT[] = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .entry attack_breakpoint(.param .u32 number, .param .u64 own)
{
    brkpt;
    ret;
}
)";

const std::vector<Attack> ENDS = {
    {"trap", [](Target &t, unsigned i) { attack_trap<<<1 + i % 4, 1 + 31 * (i % 2), 0, t.stream>>>(t.own); }},
    {"assert", [](Target &t, unsigned i) { attack_assert<<<1 + i % 4, 1 + 31 * (i % 2), 0, t.stream>>>(t.own); }},
    {"breakpoint", [](Target &t, unsigned i) { launch_ptx(t, BREAKPOINT, "attack_breakpoint", i); }},
};

__global__ void attack_memory_loop(volatile uint32_t *own) {
    while (own[threadIdx.x % 64] != 1) {
    }
}

__global__ void attack_arithmetic_loop(uint32_t *own) {
    uint32_t value = threadIdx.x * 2 + 1;
    // (An odd number times odd numbers is never zero.)
    while (value != 0) value *= 1664525u;
    own[0] = value;
}

__global__ void attack_sleep_loop(volatile uint32_t *own) {
    while (own[0] != 1) __nanosleep(1000);
}

__global__ void attack_barrier_loop(volatile uint32_t *own) {
    while (own[0] != 1) __syncthreads();
}

__global__ void attack_trip_count(uint32_t *own, uint64_t passes) {
    uint64_t sum = 0;
    for (uint64_t pass = 0; pass < passes; pass++) sum = (sum ^ pass) * 6364136223846793005ull;
    own[threadIdx.x % 64] = (uint32_t)sum;
}

__global__ void attack_grid(uint32_t *own) {
    if (blockIdx.x == 0x7fffffff) own[0] = 1;
}

template <int DEPTH>
__device__ __noinline__ uint32_t tree(uint32_t value) {
    if constexpr (DEPTH == 0) return value * 1664525u + 1013904223u;
    else return tree<DEPTH - 1>(value ^ DEPTH) + tree<DEPTH - 1>(value + 1) + tree<DEPTH - 1>(value * 3);
}

__global__ void attack_call_tree(uint32_t *own) { own[threadIdx.x % 64] = tree<28>(threadIdx.x); }

// Ends by itself, soon.
__global__ void attack_short(uint32_t *own) {
    for (int pass = 0; pass < 300; pass++) __nanosleep(1000000);
    own[0] = 1;
}

static const char EMPTY[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
                            ".visible .entry nothing(.param .u64 a) { ret; }\n";

// Does something again and again on a thread of its own, also when it fails.
template <typename F>
static void again(F something) {
    std::thread([=] {
        for (;;)
            if (!something()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }).detach();
}

// Few blocks, and very many grids: devices have a limit of grids, and queues that
// several streams share. (In a thread: some may have to wait.)
static void small_grids(Target &t, unsigned) {
    std::thread([own = t.own] {
        for (int grid = 0; grid < 28; grid++) {
            cudaStream_t stream;
            if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return;
            attack_memory_loop<<<1, 32, 0, stream>>>(own);
        }
    }).detach();
}

// The kernels are ended while code is loaded.
static void while_loading(Target &t, unsigned at) {
    attack_memory_loop<<<t.is_large ? 8192 : 64, t.is_large ? 1024 : 64, 0, t.stream>>>(t.own);
    if (at > 0) return;
    again([] {
        CUmodule module;
        if (DRIVER(cuModuleLoadData)(&module, EMPTY) != CUDA_SUCCESS) return false;
        return DRIVER(cuModuleUnload)(module) == CUDA_SUCCESS;
    });
}

// No kernel runs for long, and there is always another one.
static void short_kernels(Target &t, unsigned) {
    again([stream = t.stream, own = t.own, blocks = t.is_large ? 264 : 16, threads = t.is_large ? 1024 : 64] {
        for (int launch = 0; launch < 4; launch++) attack_short<<<blocks, threads, 0, stream>>>(own);
        return cudaStreamSynchronize(stream) == cudaSuccess;
    });
}

void load_loops() {
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, attack_memory_loop));
}

// More blocks than a device holds at a time: nothing else runs beside them.
static dim3 many(const Target &t) { return dim3(t.is_large ? 8192 : 64); }
static dim3 threads(const Target &t) { return dim3(t.is_large ? 1024 : 64); }
#define ENDLESS(kernel, ...) \
    [](Target &t, unsigned) { kernel<<<many(t), threads(t), 0, t.stream>>>(__VA_ARGS__); }

const std::vector<Attack> LOOPS = {
    {"loop of loads", ENDLESS(attack_memory_loop, t.own)},
    {"loop of arithmetic", ENDLESS(attack_arithmetic_loop, t.own)},
    {"loop of sleeps", ENDLESS(attack_sleep_loop, t.own)},
    {"loop of barriers", ENDLESS(attack_barrier_loop, t.own)},
    {"huge trip count", ENDLESS(attack_trip_count, t.own, 1ull << 62)},
    {"huge grid", [](Target &t, unsigned) { attack_grid<<<0x7fffffff, threads(t), 0, t.stream>>>(t.own); }},
    {"call tree", ENDLESS(attack_call_tree, t.own)},
    {"many small grids", small_grids},
    {"ended while it loads code", while_loading},
    {"kernels that end in time", short_kernels},
};
