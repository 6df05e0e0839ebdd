// Threads that wait for each other for ever, and grids that do.
#include "attack.cuh"

// Each half of a block waits for all of it, at a barrier of its own.
__global__ void attack_two_barriers(uint32_t *own) {
    if (threadIdx.x < 32) asm volatile("barrier.sync 1;" ::: "memory");
    else asm volatile("barrier.sync 2;" ::: "memory");
    own[threadIdx.x % 64] = 1;
}

// More threads than there are.
__global__ void attack_counted_barrier(uint32_t *own) {
    if (threadIdx.x < 32) asm volatile("barrier.sync 1, 64;" ::: "memory");
    own[threadIdx.x % 64] = 1;
}

// Each half of a block waits for more threads than come, at a barrier of its own.
__global__ void attack_counted_barriers(uint32_t *own) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x) : "memory");
    else asm volatile("bar.sync 2, %0;" ::"r"(blockDim.x) : "memory");
    own[threadIdx.x % 64] = 1;
}

// Who waits is not told.
__global__ void attack_arrivals(uint32_t *own) {
    if (threadIdx.x < 32) asm volatile("bar.arrive 3, %0;" ::"r"(blockDim.x + 32) : "memory");
    else asm volatile("bar.sync 3, %0;" ::"r"(blockDim.x + 32) : "memory");
    own[threadIdx.x % 64] = 1;
}

// A reduction, to which some do not come.
__global__ void attack_counted_reduction(uint32_t *own) {
    uint32_t count = 0;
    if (threadIdx.x < 32)
        asm volatile("{.reg .pred p; setp.eq.u32 p, %2, 7; bar.red.popc.u32 %0, 4, %1, p;}"
                     : "=r"(count)
                     : "r"(blockDim.x), "r"(threadIdx.x)
                     : "memory");
    own[threadIdx.x % 64] = count;
}

// Warps that are at one barrier with different operations, which devices cannot execute.
__global__ void attack_operations(uint32_t *own) {
    uint32_t count = 0;
    if (threadIdx.x < 32)
        asm volatile("{.reg .pred p; setp.eq.u32 p, %1, 7; bar.red.popc.u32 %0, 0, p;}"
                     : "=r"(count)
                     : "r"(threadIdx.x)
                     : "memory");
    else asm volatile("bar.sync 0;" ::: "memory");
    own[threadIdx.x % 64] = count;
}

// Lanes of a warp at both kinds of barriers.
__global__ void attack_kinds(uint32_t *own) {
    if (threadIdx.x % 2 == 0) asm volatile("barrier.sync 0;" ::: "memory");
    else asm volatile("bar.sync 0;" ::: "memory");
    own[threadIdx.x % 64] = 1;
}

// One lane waits for another one of its warp, which waits for it with the block.
__global__ void attack_lanes(uint32_t *own) {
    if (threadIdx.x % 32 == 0) asm volatile("bar.warp.sync 3;" ::: "memory");
    else asm volatile("barrier.sync 1;" ::: "memory");
    own[threadIdx.x % 64] = 1;
}

// A phase that nobody completes.
__global__ void attack_mbarrier(uint32_t *own) {
    __shared__ alignas(8) uint64_t barrier;
    unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 2048;" ::"r"(at) : "memory");
    __syncthreads();
    uint32_t is_over = 0;
    while (!is_over)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                     : "=r"(is_over)
                     : "r"(at)
                     : "memory");
    own[0] = is_over;
}

// A barrier of the whole grid, at which one block never arrives.
__global__ void attack_grid_barrier(uint32_t *own) {
    if (blockIdx.x == 0) return;
    if (threadIdx.x == 0) atomicAdd(own + 1, 1);
    while (*(volatile uint32_t *)own != gridDim.x) __nanosleep(100);
}

// Of another module: it may be refused as a whole.
static const char CLUSTER[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry attack_cluster(.param .u32 number, .param .u64 own) .reqnctapercluster 2, 1, 1
{
    .reg .pred %p1;
    .reg .b32 %r<2>;
    mov.u32 %r1, %cluster_ctarank;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra WAITS;
LOOP:
    bra LOOP;
WAITS:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
}
)";

static const char DEPENDENTS[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry attack_dependents(.param .u32 number, .param .u64 own)
{
    .reg .pred %p1;
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [own];
    griddepcontrol.launch_dependents;
LOOP:
    ld.volatile.global.u32 %r1, [%rd1];
    setp.ne.u32 %p1, %r1, 1;
    @%p1 bra LOOP;
    griddepcontrol.wait;
    ret;
}
)";

static unsigned many(const Target &t) { return t.is_large ? 8192 : 64; }
static unsigned threads(const Target &t) { return t.is_large ? 1024 : 64; }

static void launch_many(Target &t, const char *text, const char *name) {
    CUfunction function = from_ptx(text, name);
    if (!function) return;
    uint32_t number = 0;
    void *arguments[] = {&number, &t.own};
    CUresult result =
        DRIVER(cuLaunchKernel)(function, many(t), 1, 1, threads(t), 1, 1, 0, (CUstream)t.stream, arguments, nullptr);
    if (result != CUDA_SUCCESS) std::printf("refused %d\n", (int)result);
}

// As many blocks as run at a time: a grid of which all blocks are there.
static void cooperative(Target &t, unsigned) {
    int processors = 1;
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    dim3 blocks(t.is_large ? processors * 2 : 4);
    void *arguments[] = {&t.own};
    cudaError_t error = cudaLaunchCooperativeKernel((void *)attack_grid_barrier, blocks, dim3(threads(t)), arguments,
                                                    0, t.stream);
    if (error != cudaSuccess) std::printf("refused %d\n", (int)error);
}

#define WAITS(kernel) [](Target &t, unsigned) { kernel<<<many(t), threads(t), 0, t.stream>>>(t.own); }

const std::vector<Attack> WAITING = {
    {"two barriers", WAITS(attack_two_barriers)},
    {"barrier for more threads", WAITS(attack_counted_barrier)},
    {"two barriers for more threads", WAITS(attack_counted_barriers)},
    {"arrivals for more threads", WAITS(attack_arrivals)},
    {"reduction for more threads", WAITS(attack_counted_reduction)},
    {"operations at a barrier", WAITS(attack_operations)},
    {"both kinds of barriers", WAITS(attack_kinds)},
    {"lanes and block", WAITS(attack_lanes)},
    {"mbarrier", WAITS(attack_mbarrier)},
    {"cooperative grid", cooperative},
    {"cluster", [](Target &t, unsigned) { launch_many(t, CLUSTER, "attack_cluster"); }},
    {"dependent launches", [](Target &t, unsigned) { launch_many(t, DEPENDENTS, "attack_dependents"); }},
};
