// Bound by the latency of loads that depend on each other: particles that walk
// through a table.
#include "work.h"

__global__ void walk(const unsigned *table, unsigned mask, unsigned *particles, int count, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    unsigned at = particles[i];
    for (int k = 0; k < steps; k++) at = table[at & mask] + i;
    particles[i] = at;
}

__global__ void fill_table(unsigned *table, unsigned count, unsigned seed) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) table[i] = (i + seed) * 2654435761u ^ (i >> 7);
}

struct Gather : Work {
    unsigned entries;
    int count, walks;
    unsigned *table, *particles;

    explicit Gather(bool is_small)
        : entries(is_small ? 1 << 10 : 1 << 26), count(is_small ? 128 : 1 << 16), walks(is_small ? 2 : 32) {
        table = device_memory<unsigned>(entries);
        particles = device_memory<unsigned>(count);
        fill_table<<<(entries + 255) / 256, 256>>>(table, entries, 3);
        fill_table<<<(count + 255) / 256, 256>>>(particles, count, 11);
        wait();
    }

    void round() override {
        for (int k = 0; k < walks; k++) walk<<<(count + 127) / 128, 128>>>(table, entries - 1, particles, count, 64);
        wait();
    }

    uint64_t digest() override { return digest_of(particles, count); }
};

std::unique_ptr<Work> make_gather(bool is_small) { return std::make_unique<Gather>(is_small); }
