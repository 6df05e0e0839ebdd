// Accesses out of bounds, and misaligned ones.
#include "attack.cuh"

__device__ const uint32_t not_secret = ~SECRET;

// Writes everywhere from an address on.
__global__ void attack_store(uint64_t start, uint64_t bytes, unsigned kind) {
    uint64_t step = 16ull * gridDim.x * blockDim.x;
    uint64_t at = start + 16ull * (blockIdx.x * blockDim.x + threadIdx.x);
    for (; at < start + bytes; at += step) {
        switch (kind % 6) {
        case 0: *(volatile unsigned char *)at = 0x66; break;
        case 1: *(volatile uint32_t *)at = 0x66666666; break;
        case 2: *(volatile uint64_t *)at = 0x6666666666666666; break;
        case 3: *(uint4 *)at = make_uint4(6, 6, 6, 6); break;
        case 4: atomicAdd((unsigned *)at, 0x666u); break;
        default: atomicExch((unsigned long long *)at, 0x6666666666666666ull); break;
        }
    }
}

// Counts words of the secret from an address on.
__global__ void attack_load(uint64_t start, uint64_t bytes, unsigned kind, uint32_t *found) {
    uint64_t step = 16ull * gridDim.x * blockDim.x;
    uint64_t at = start + 16ull * (blockIdx.x * blockDim.x + threadIdx.x);
    uint32_t secret = ~not_secret, mine = 0;
    for (; at < start + bytes; at += step) {
        switch (kind % 5) {
        case 0: mine += *(volatile uint32_t *)at == secret; break;
        case 1: mine += uint32_t(*(volatile uint64_t *)at) == secret; break;
        case 2: mine += (*(uint4 *)at).y == secret; break;
        case 3: mine += atomicAdd((unsigned *)at, 0u) == secret; break;
        default: mine += __ldg((const uint32_t *)at) == secret; break;
        }
    }
    if (mine) atomicAdd(found, mine);
}

static void store(Target &t, uint64_t at, uint64_t bytes, unsigned kind) {
    attack_store<<<2, 64, 0, t.stream>>>(at, bytes, kind);
}

static void load(Target &t, uint64_t at, uint64_t bytes, unsigned kind) {
    attack_load<<<2, 64, 0, t.stream>>>(at, bytes, kind, t.found);
}

using Access = void (*)(Target &, uint64_t at, uint64_t bytes, unsigned kind);

constexpr uint64_t KIB = 1 << 10, MIB = 1 << 20, GIB = 1 << 30;
// Where a manager's partitions lie, and their margins (model::layout::fence).
constexpr uint64_t FIRST = 0x200000000000, HEADROOM = 64 * MIB, MARGIN = 33 * GIB, HINTED = 32 * MIB;

template <Access access>
void near_after(Target &t, unsigned i) {
    const uint64_t distances[] = {0, 16, 240, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 128 * MIB};
    access(t, (uint64_t)t.own + Target::OWN_BYTES + distances[i % 8], 64 * KIB, i / 8);
}

template <Access access>
void near_before(Target &t, unsigned i) {
    const uint64_t distances[] = {16, 256, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 65 * MIB, 128 * MIB};
    access(t, (uint64_t)t.own - distances[i % 8], distances[i % 8], i / 8);
}

template <Access access>
void far_off(Target &t, unsigned i) {
    const uint64_t distances[] = {GIB, 4 * GIB, 16 * GIB, 31 * GIB, 33 * GIB, 76 * GIB, 1ull << 40, 1ull << 46};
    uint64_t distance = distances[i / 2 % 8];
    access(t, (uint64_t)t.own + (i % 2 ? 0 - distance : distance), 4 * KIB, i / 16);
}

template <Access access>
void anywhere(Target &t, unsigned i) {
    const uint64_t odd[] = {0, 8 * KIB, 0 - 4 * KIB, 1ull << 47, 1ull << 63, (1ull << 49) - 64};
    uint64_t at = i % 2 ? random_number(i) & ~15ull : odd[i / 2 % 6];
    access(t, i % 4 == 3 ? at >> 17 & ~15ull : at, 256, i / 12);
}

template <Access access>
void into_neighbour(Target &t, unsigned i) {
    const uint64_t places[] = {t.secret, t.integers, t.floats};
    access(t, places[i % 3], t.bytes, i / 3);
}

// In one step from the own buffer: an index that is as large as it must be.
template <Access access>
void into_partitions(Target &t, unsigned i) {
    uint64_t base = t.partition ? t.partition : t.secret & ~(4 * GIB - 1);
    const int64_t slots[] = {-2, -1, 0, 1, 2};
    uint64_t at = base + slots[i % 5] * 76 * int64_t(GIB) + HEADROOM;
    access(t, at, MIB, i / 5);
}

// The counters of retired threads, the word that ends kernels, the edges, and
// where a process of its own has its heap and its libraries.
template <Access access>
void into_metadata(Target &t, unsigned i) {
    uint64_t base = t.partition ? t.partition : t.secret & ~(4 * GIB - 1);
    const uint64_t places[] = {base, base - MARGIN - HINTED, base - MARGIN, base - 64, base + 4 * GIB - 64,
                               FIRST, 0x555555554000, 0x7ffff7dc0000};
    access(t, places[i % 8], 64, i / 8);
}

__global__ void attack_misaligned(char *own, unsigned offset, unsigned kind, uint32_t *out) {
    char *at = own + 64 * threadIdx.x + offset;
    switch (kind) {
    case 0: *(volatile uint16_t *)at = 6; break;
    case 1: *(volatile uint32_t *)at = 6; break;
    case 2: *(volatile uint64_t *)at = 6; break;
    case 3: *(uint4 *)at = make_uint4(6, 6, 6, 6); break;
    case 4: atomicAdd((unsigned *)at, 6); break;
    case 5: out[1] = *(volatile uint32_t *)at; break;
    case 6: out[1] = *(volatile uint64_t *)at; break;
    default: out[1] = (*(float4 *)at).z > 0; break;
    }
}

static void misaligned(Target &t, unsigned i) {
    attack_misaligned<<<1, 32, 0, t.stream>>>((char *)t.own, 1 + 2 * (i / 8 % 4), i % 8, t.found);
}

__global__ void attack_shared(uint64_t at, bool is_generic, bool is_load, uint32_t *found) {
    __shared__ uint32_t few[64];
    few[threadIdx.x] = 0;
    __syncthreads();
    if (is_generic) {
        volatile uint32_t *place = (volatile uint32_t *)((char *)few + at);
        if (is_load) found[1] = *place;
        else *place = 6;
    } else {
        unsigned place = (unsigned)__cvta_generic_to_shared(few) + (unsigned)at;
        unsigned value = 6;
        if (is_load) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(place));
        else asm volatile("st.shared.u32 [%0], %1;" ::"r"(place), "r"(value));
        found[2] = value;
    }
    __syncthreads();
    found[3] = few[threadIdx.x];
}

static void shared_memory(Target &t, unsigned i) {
    const uint64_t distances[] = {256, 48 * KIB, 228 * KIB, 16 * MIB, 0 - 4096ull, 0x7ffffffc, 1};
    attack_shared<<<1, 32, 0, t.stream>>>(distances[i % 7], i / 7 % 2, i / 14 % 2, t.found);
}

__global__ void attack_local(int64_t at, bool is_load, uint32_t *found) {
    uint32_t few[16];
    for (int word = 0; word < 16; word++) few[(word * 5 + threadIdx.x) % 16] = word;
    volatile uint32_t *place = (volatile uint32_t *)((char *)few + at);
    if (is_load) found[1] = *place;
    else *place = 6;
    found[2] = few[threadIdx.x % 16];
}

static void local_memory(Target &t, unsigned i) {
    const int64_t distances[] = {64, 4096, 1 << 20, 1 << 30, -64, -4096, -(1 << 30), 1ll << 40, 1};
    attack_local<<<1, 32, 0, t.stream>>>(distances[i % 9], i / 9 % 2, t.found);
}

#define BOTH(name, function) {name " (write)", function<store>}, {name " (read)", function<load>, true}

const std::vector<Attack> ACCESSES = {
    BOTH("near-after", near_after),
    BOTH("near-before", near_before),
    BOTH("far", far_off),
    BOTH("anywhere", anywhere),
    BOTH("neighbour", into_neighbour),
    BOTH("partitions", into_partitions),
    BOTH("metadata", into_metadata),
    {"misaligned", misaligned},
    {"shared", shared_memory},
    {"local", local_memory},
};
