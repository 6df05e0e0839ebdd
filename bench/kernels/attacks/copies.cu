// Addresses of the neighbour's in calls of the host, and memory that others have
// used.
#include "attack.cuh"

// Counts words of the secret.
static void look(Target &t, const std::vector<uint32_t> &words) {
    uint32_t found = 0;
    for (uint32_t word : words) found += word == SECRET;
    if (found) CHECK(cudaMemcpy(t.found, &found, 4, cudaMemcpyHostToDevice));
}

static void answer(const char *call, int code) { std::printf("answer %s %d\n", call, code); }

static void from(Target &t, unsigned i) {
    std::vector<uint32_t> words(t.bytes / 4);
    uint64_t bytes = i % 2 ? t.bytes : 64;
    answer("cuMemcpyDtoH", DRIVER(cuMemcpyDtoH)(words.data(), t.secret, bytes));
    look(t, words);
}

static void into(Target &t, unsigned i) {
    std::vector<uint32_t> words(t.bytes / 4, 6);
    uint64_t after = 64 * (i % 3);
    uint64_t bytes = i % 2 ? t.bytes - after : 64;
    answer("cuMemcpyHtoD", DRIVER(cuMemcpyHtoD)(t.secret + after, words.data(), bytes));
}

static void within(Target &t, unsigned i) {
    uint64_t own = (uint64_t)t.own;
    if (i % 2) {
        answer("cuMemcpyDtoD", DRIVER(cuMemcpyDtoD)(t.secret, own, Target::OWN_BYTES));
        return;
    }
    std::vector<uint32_t> words(Target::OWN_BYTES / 4);
    answer("cuMemcpyDtoD", DRIVER(cuMemcpyDtoD)(own, t.secret, Target::OWN_BYTES));
    answer("cuMemcpyDtoH", DRIVER(cuMemcpyDtoH)(words.data(), own, Target::OWN_BYTES));
    look(t, words);
}

// Rows of which the first is the attacker's and the second the neighbour's.
static void rows(Target &t, unsigned i) {
    std::vector<uint32_t> words(32, 6);
    uint64_t own = (uint64_t)t.own;
    if (t.is_beside) {
        // (Drivers refuse rows that are more than 2 GiB apart.)
        own = t.integers;
    }
    CUDA_MEMCPY2D copy = {};
    copy.WidthInBytes = 64;
    copy.Height = 2;
    CUdeviceptr first = own < t.secret ? own : t.secret;
    uint64_t pitch = own < t.secret ? t.secret - own : own - t.secret;
    if (i % 2) {
        copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = words.data(), copy.srcPitch = 64;
        copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = first, copy.dstPitch = pitch;
    } else {
        copy.srcMemoryType = CU_MEMORYTYPE_DEVICE, copy.srcDevice = first, copy.srcPitch = pitch;
        copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = words.data(), copy.dstPitch = 64;
    }
    answer("cuMemcpy2DUnaligned", DRIVER(cuMemcpy2DUnaligned)(&copy));
    look(t, words);
}

static void sets(Target &t, unsigned i) {
    switch (i % 3) {
    case 0: answer("cuMemsetD8", DRIVER(cuMemsetD8)(t.secret, 6, t.bytes)); break;
    case 1: answer("cuMemsetD32", DRIVER(cuMemsetD32)(t.integers, 6, t.bytes / 4)); break;
    default: answer("cuMemsetD2D8", DRIVER(cuMemsetD2D8)(t.secret, 128, 6, 64, 16)); break;
    }
}

static void frees(Target &t, unsigned i) {
    const uint64_t places[] = {t.secret, t.integers, t.floats, t.secret + 256};
    answer("cuMemFree", DRIVER(cuMemFree)(places[i % 4]));
}

const std::vector<Attack> COPIES = {
    {"memcpy from", from, true}, {"memcpy to", into},  {"memcpy within", within, true},
    {"memcpy of rows", rows, true}, {"memset", sets}, {"free", frees},
};

// ---- what others have left --------------------------------------------------

__device__ const uint32_t not_secret = ~SECRET;

__global__ void residue_shared(int words, uint32_t *found) {
    extern __shared__ volatile uint32_t left[];
    uint32_t mine = 0;
    for (int at = threadIdx.x; at < words; at += blockDim.x) mine += left[at] == ~not_secret;
    if (mine) atomicAdd(found, mine);
}

__global__ void residue_static(uint32_t *found) {
    __shared__ volatile uint32_t left[8 << 10];
    uint32_t mine = 0;
    for (int at = threadIdx.x; at < 8 << 10; at += blockDim.x) mine += left[at] == ~not_secret;
    if (mine) atomicAdd(found, mine);
}

__global__ void residue_memory(const uint4 *left, uint64_t bytes, uint32_t *found) {
    uint32_t mine = 0, secret = ~not_secret;
    uint64_t step = gridDim.x * blockDim.x;
    for (uint64_t at = blockIdx.x * blockDim.x + threadIdx.x; at < bytes / 16; at += step) {
        uint4 four = left[at];
        mine += (four.x == secret) + (four.y == secret) + (four.z == secret) + (four.w == secret);
    }
    if (mine) atomicAdd(found, mine);
}

// Reads registers, and local memory, that nothing has written.
static const char UNWRITTEN[] = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .entry residue_registers(.param .u32 secret, .param .u64 found)
{
    .reg .b32 %r<8>, %left<64>;
    .reg .b64 %rd<4>;
    .reg .pred %p<2>;
    ld.param.u32 %r1, [secret];
    ld.param.u64 %rd1, [found];
    mov.u32 %r2, 0;
REGISTERS
    setp.eq.u32 %p1, %r2, 0;
    @%p1 ret;
    atom.global.add.u32 %r3, [%rd1], %r2;
    ret;
}
.visible .entry residue_local(.param .u32 secret, .param .u64 found)
{
    .local .align 16 .b8 left[1024];
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    .reg .pred %p<3>;
    ld.param.u32 %r1, [secret];
    ld.param.u64 %rd1, [found];
    mov.u32 %r2, 0;
    mov.u64 %rd2, left;
    mov.u32 %r3, 0;
NEXT:
    ld.local.volatile.u32 %r4, [%rd2];
    setp.eq.u32 %p1, %r4, %r1;
    selp.u32 %r5, 1, 0, %p1;
    add.u32 %r2, %r2, %r5;
    add.u64 %rd2, %rd2, 4;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p2, %r3, 256;
    @%p2 bra NEXT;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 ret;
    atom.global.add.u32 %r3, [%rd1], %r2;
    ret;
}
)";

static void unwritten(Target &t, const char *kernel) {
    std::string text = UNWRITTEN, all;
    for (int at = 0; at < 64; at++) {
        std::string name = "%left" + std::to_string(at);
        all += "    setp.eq.u32 %p1, " + name + ", %r1;\n    selp.u32 %r3, 1, 0, %p1;\n    add.u32 %r2, %r2, %r3;\n";
    }
    text.replace(text.find("REGISTERS"), 9, all);
    CUfunction function = from_ptx(text.c_str(), kernel);
    if (!function) return;
    uint32_t secret = SECRET;
    void *arguments[] = {&secret, &t.found};
    answer("cuLaunchKernel", DRIVER(cuLaunchKernel)(function, 64, 1, 1, 64, 1, 1, 0, (CUstream)t.stream,
                                                    arguments, nullptr));
}

static void left_in_memory(Target &t, unsigned) {
    // In one context: a neighbour that has come and gone.
    if (t.is_beside) {
        std::vector<uint32_t> words(1 << 20, SECRET);
        uint32_t *gone;
        CHECK(cudaMalloc(&gone, 4 << 20));
        CHECK(cudaMemcpy(gone, words.data(), 4 << 20, cudaMemcpyHostToDevice));
        CHECK(cudaFree(gone));
    }
    uint64_t bytes = t.is_beside || t.is_large ? 4 << 20 : 24 << 20;
    uint32_t *left;
    CHECK(cudaMalloc(&left, bytes));
    residue_memory<<<64, 128, 0, t.stream>>>((const uint4 *)left, bytes, t.found);
    CHECK(cudaStreamSynchronize(t.stream));
    CHECK(cudaFree(left));
}

const std::vector<Attack> RESIDUES = {
    {"dynamic shared memory",
     [](Target &t, unsigned) { residue_shared<<<64, 64, 32 << 10, t.stream>>>(8 << 10, t.found); }, true},
    {"static shared memory", [](Target &t, unsigned) { residue_static<<<64, 64, 0, t.stream>>>(t.found); }, true},
    {"local memory", [](Target &t, unsigned) { unwritten(t, "residue_local"); }, true},
    {"registers", [](Target &t, unsigned) { unwritten(t, "residue_registers"); }, true},
    {"global memory", left_in_memory, true},
};
