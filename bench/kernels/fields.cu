// Array fields of structs, in a -G build, which tells of them: in global, in
// shared and in local memory.
#include "harness.h"

struct Particle {
    float place[4];
    float speed[4];
    int tags[8];
};

static int blocks_for(long long n, int threads) {
    return static_cast<int>((n + threads - 1) / threads);
}

__global__ void start(Particle *particles, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int axis = 0; axis < 4; axis++) {
        particles[i].place[axis] = static_cast<float>((i + axis) % 16);
        particles[i].speed[axis] = static_cast<float>(axis);
    }
    for (int tag = 0; tag < 8; tag++) particles[i].tags[tag] = (i + tag) % 8;
}

__global__ void move_particles(Particle *particles, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int axis = 0; axis < 4; axis++)
        particles[i].place[axis] += particles[i].speed[axis];
    for (int tag = 0; tag < 8; tag++)
        particles[i].tags[tag] += particles[i].tags[particles[i].tags[tag] & 7] & 1;
}

static void prepare_fields_global(Bench &bench, long long n) {
    Particle *particles = bench.allocate<Particle>(n);
    bench.keep(particles, n);
    bench.reset = [=] { start<<<blocks_for(n, 256), 256>>>(particles, n); };
    bench.launch = [=] { move_particles<<<blocks_for(n, 256), 256>>>(particles, n); };
}

struct Tile {
    int values[128];
    int counts[128];
};

__global__ void fields_shared(int *out, int n) {
    __shared__ Tile tile;
    int i = blockIdx.x * blockDim.x + threadIdx.x, at = threadIdx.x;
    tile.values[at] = i * 7;
    tile.counts[at] = 0;
    __syncthreads();
    for (int k = 0; k < 16; k++) tile.counts[at] += tile.values[(at + k) & 127] & 3;
    if (i < n) out[i] = tile.counts[at];
}

static void prepare_fields_shared(Bench &bench, long long n) {
    int *out = bench.allocate<int>(n);
    bench.keep(out, n);
    bench.launch = [=] { fields_shared<<<blocks_for(n, 128), 128>>>(out, n); };
}

static const Entry entries[] = {
    {"fields_global", 1 << 21, 2000, prepare_fields_global},
    {"fields_shared", 1 << 21, 2000, prepare_fields_shared},
};

int main(int argc, char **argv) {
    return bench_main(argc, argv, entries, sizeof entries / sizeof entries[0]);
}
