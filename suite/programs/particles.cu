// about: short-range forces by cell lists and long-range ones by a Barnes-Hut quadtree, in fixed-point arithmetic
//
// Particles in a square box. Positions are 32-bit fixed point, forces 64-bit
// integers, so that sums have one value whatever their order. A step sorts the
// particles into cells (count, scan, scatter), computes repulsion from the
// nine neighbouring cells with tiles in shared memory, builds a quadtree by
// Morton codes level by level, sums masses upwards, and walks the tree with a
// stack in local memory for attraction. The host repeats every step.
#include "case.h"
#include <algorithm>
#include <cstdint>
#include <numeric>

constexpr int kThreads = 128;
constexpr int kCellBits = 4;                      // 16 x 16 cells
constexpr int kSide = 1 << kCellBits;
constexpr int kCells = kSide * kSide;
constexpr int kLevels = 6;                        // of the quadtree, leaves 32 x 32
constexpr int kBox = 1 << 16;                     // side of the box
constexpr int kCell = kBox / kSide;

struct Particle {
    int x, y;
    int vx, vy;
    int mass;
    int id;
};

struct Force {
    long long x, y;
};

struct Node {
    long long mass, mx, my;  // mass and its first moments
};

struct Parameters {
    int range;      // repulsion ends here; at most a cell
    int stiffness;
    int opening;    // a node is opened when its side * opening exceeds the distance
    int damping;
    int gravity;
};

__constant__ Parameters parameters;

// First node of a level, and nodes of all levels.
__host__ __device__ constexpr int level_start(int level) { return ((1 << (2 * level)) - 1) / 3; }
constexpr int kNodes = level_start(kLevels);

__host__ __device__ inline int cell_of(int x, int y) { return y / kCell * kSide + x / kCell; }

// Interleaves the bits of a leaf's coordinates.
__host__ __device__ inline unsigned morton(unsigned x, unsigned y) {
    unsigned code = 0;
    for (int bit = 0; bit < 8; bit++) code |= (x >> bit & 1) << (2 * bit) | (y >> bit & 1) << (2 * bit + 1);
    return code;
}

__host__ __device__ inline unsigned leaf_of(int x, int y) {
    constexpr int size = kBox >> (kLevels - 1);
    return morton(x / size, y / size);
}

__host__ __device__ inline long long root(long long value) {
    // Integer square root by Newton's method, from above.
    if (value < 2) return value;
    long long guess = value;
    for (long long next = (guess + 1) / 2; next < guess; next = (guess + value / guess) / 2) guess = next;
    return guess;
}

__host__ __device__ inline void repel(const Parameters &p, int dx, int dy, Force &force) {
    const long long square = (long long)dx * dx + (long long)dy * dy;
    if (square >= (long long)p.range * p.range || square == 0) return;
    const long long distance = root(square), push = (p.range - distance) * p.stiffness;
    force.x += push * dx / distance;
    force.y += push * dy / distance;
}

__host__ __device__ inline void attract(const Parameters &p, long long mass, long long dx, long long dy, Force &force) {
    const long long distance = root(dx * dx + dy * dy) + 64;
    const long long pull = mass * p.gravity / distance;
    force.x += pull * dx / distance;
    force.y += pull * dy / distance;
}

__host__ __device__ inline void move(const Parameters &p, const Force &force, Particle &particle) {
    auto axis = [&](int &position, int &velocity, long long push) {
        velocity = static_cast<int>((velocity * (long long)p.damping >> 8) + push / (particle.mass * 256ll));
        velocity = velocity > kCell / 4 ? kCell / 4 : velocity < -kCell / 4 ? -kCell / 4 : velocity;
        position += velocity;
        if (position < 0) position = -position, velocity = -velocity;
        if (position >= kBox) position = 2 * kBox - 1 - position, velocity = -velocity;
    };
    axis(particle.x, particle.vx, force.x);
    axis(particle.y, particle.vy, force.y);
}

// ----------------------------------------------------------------- cell lists

__global__ void count_cells(int count, const Particle *particles, int *counts) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&counts[cell_of(particles[i].x, particles[i].y)], 1);
}

// One block of kCells threads: starts[c] is the exclusive sum, starts[kCells] the total.
__global__ void scan_cells(int *counts, int *starts) {
    __shared__ int warps[kCells / 32];
    const int i = threadIdx.x, lane = i & 31;
    const int value = counts[i];
    int sum = value;
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(~0u, sum, distance);
        if (lane >= distance) sum += other;
    }
    if (lane == 31) warps[i / 32] = sum;
    __syncthreads();
    if (i < kCells / 32) {
        int total = warps[i];
        for (int distance = 1; distance < kCells / 32; distance *= 2) {
            const int other = __shfl_up_sync((1u << (kCells / 32)) - 1, total, distance);
            if (i >= distance) total += other;
        }
        warps[i] = total;
    }
    __syncthreads();
    if (i >= 32) sum += warps[i / 32 - 1];
    starts[i] = sum - value;
    if (i == kCells - 1) starts[kCells] = sum;
    counts[i] = 0;
}

__global__ void scatter_cells(int count, const Particle *particles, const int *starts, int *counts, Particle *sorted) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const int cell = cell_of(particles[i].x, particles[i].y);
        sorted[starts[cell] + atomicAdd(&counts[cell], 1)] = particles[i];
    }
}

// A warp a cell; neighbours' particles pass through shared memory in tiles.
__global__ void repulsion(const Particle *sorted, const int *starts, Force *forces) {
    constexpr int kWarps = kThreads / 32;
    __shared__ int2 tile[kWarps][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int cell = blockIdx.x * kWarps + warp;
    if (cell >= kCells) return;
    const int cx = cell % kSide, cy = cell / kSide;
    for (int first = starts[cell]; first < starts[cell + 1]; first += 32) {
        const int mine = first + lane;
        const bool active = mine < starts[cell + 1];
        const int x = active ? sorted[mine].x : 0, y = active ? sorted[mine].y : 0;
        Force force = {0, 0};
        for (int ny = max(cy - 1, 0); ny <= min(cy + 1, kSide - 1); ny++)
            for (int nx = max(cx - 1, 0); nx <= min(cx + 1, kSide - 1); nx++) {
                const int end = starts[ny * kSide + nx + 1];
                for (int from = starts[ny * kSide + nx]; from < end; from += 32) {
                    const int size = min(32, end - from);
                    if (lane < size) tile[warp][lane] = make_int2(sorted[from + lane].x, sorted[from + lane].y);
                    __syncwarp();
                    if (active)
                        for (int k = 0; k < size; k++) repel(parameters, x - tile[warp][k].x, y - tile[warp][k].y, force);
                    __syncwarp();
                }
            }
        if (active) forces[sorted[mine].id] = force;
    }
}

// ------------------------------------------------------------------- quadtree

__global__ void fill_leaves(int count, const Particle *particles, Node *nodes) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Particle p = particles[i];
    Node &leaf = nodes[level_start(kLevels - 1) + leaf_of(p.x, p.y)];
    using Word = unsigned long long;
    atomicAdd(reinterpret_cast<Word *>(&leaf.mass), Word(p.mass));
    atomicAdd(reinterpret_cast<Word *>(&leaf.mx), Word((long long)p.mass * p.x));
    atomicAdd(reinterpret_cast<Word *>(&leaf.my), Word((long long)p.mass * p.y));
}

__global__ void sum_level(int level, Node *nodes) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 1 << (2 * level)) return;
    Node sum = {};
    for (int child = 0; child < 4; child++) {
        const Node &part = nodes[level_start(level + 1) + 4 * i + child];
        sum.mass += part.mass;
        sum.mx += part.mx;
        sum.my += part.my;
    }
    nodes[level_start(level) + i] = sum;
}

__host__ __device__ inline void walk(const Parameters &p, const Node *nodes, const Particle &particle, Force &force) {
    // At most three siblings wait on each level, and four on the last.
    unsigned stack[3 * kLevels + 1];
    int depth = 0;
    stack[depth++] = 0;  // level in the high half, index in the low one
    while (depth > 0) {
        const unsigned entry = stack[--depth];
        const int level = entry >> 16, index = entry & 0xffff;
        const Node &node = nodes[level_start(level) + index];
        if (node.mass == 0) continue;
        const long long dx = node.mx / node.mass - particle.x, dy = node.my / node.mass - particle.y;
        const long long side = kBox >> level;
        if (level == kLevels - 1 || side * p.opening < root(dx * dx + dy * dy)) {
            attract(p, node.mass, dx, dy, force);
        } else {
            for (unsigned child = 0; child < 4; child++) stack[depth++] = (level + 1) << 16 | (4 * index + child);
        }
    }
}

__global__ void attraction(int count, const Particle *particles, const Node *nodes, Force *forces) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    Force force = forces[particles[i].id];
    walk(parameters, nodes, particles[i], force);
    forces[particles[i].id] = force;
}

// Moves and sums the momentum of the block's particles.
__global__ void integrate(int count, Particle *particles, const Force *forces, long long *momentum) {
    extern __shared__ long long sums[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    long long mine = 0;
    if (i < count) {
        move(parameters, forces[particles[i].id], particles[i]);
        mine = (long long)particles[i].mass * (abs(particles[i].vx) + abs(particles[i].vy));
    }
    sums[threadIdx.x] = mine;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long *>(momentum), (unsigned long long)sums[0]);
}

// ---------------------------------------------------------------------- host

void host_step(const Parameters &p, std::vector<Particle> &particles) {
    std::vector<Force> forces(particles.size(), Force{0, 0});
    std::vector<std::vector<int>> cells(kCells);
    std::vector<Node> nodes(kNodes, Node{});
    for (size_t i = 0; i < particles.size(); i++) {
        cells[cell_of(particles[i].x, particles[i].y)].push_back(static_cast<int>(i));
        Node &leaf = nodes[level_start(kLevels - 1) + leaf_of(particles[i].x, particles[i].y)];
        leaf.mass += particles[i].mass;
        leaf.mx += (long long)particles[i].mass * particles[i].x;
        leaf.my += (long long)particles[i].mass * particles[i].y;
    }
    for (int level = kLevels - 2; level >= 0; level--)
        for (int i = 0; i < 1 << (2 * level); i++)
            for (int child = 0; child < 4; child++) {
                const Node &part = nodes[level_start(level + 1) + 4 * i + child];
                Node &sum = nodes[level_start(level) + i];
                sum.mass += part.mass, sum.mx += part.mx, sum.my += part.my;
            }
    for (size_t i = 0; i < particles.size(); i++) {
        const Particle &one = particles[i];
        const int cx = one.x / kCell, cy = one.y / kCell;
        for (int ny = std::max(cy - 1, 0); ny <= std::min(cy + 1, kSide - 1); ny++)
            for (int nx = std::max(cx - 1, 0); nx <= std::min(cx + 1, kSide - 1); nx++)
                for (int other : cells[ny * kSide + nx])
                    repel(p, one.x - particles[other].x, one.y - particles[other].y, forces[i]);
        walk(p, nodes.data(), one, forces[i]);
    }
    for (size_t i = 0; i < particles.size(); i++) move(p, forces[i], particles[i]);
}

int main() {
    constexpr int count = 2000, steps = 4, blocks = (count + kThreads - 1) / kThreads;
    const Parameters p = {kCell - 1, 40, 2, 250, 3000};
    CHECK(cudaMemcpyToSymbol(parameters, &p, sizeof(p)));
    std::vector<Particle> particles(count);
    unsigned seed = 99;
    auto random = [&](int below) {
        seed = seed * 1664525u + 1013904223u;
        return static_cast<int>((seed >> 8) % below);
    };
    for (int i = 0; i < count; i++) {
        // Half of them in a cluster that reaches the corner of the box.
        const int range = i % 2 ? kBox : kBox / 5;
        particles[i] = {random(range), random(range), random(64) - 32, random(64) - 32, 1 + random(9), i};
    }
    particles[0].x = particles[0].y = 0;
    particles[1].x = particles[1].y = kBox - 1;

    Particle *current = upload(particles), *sorted = zeroed<Particle>(count);
    Force *forces = zeroed<Force>(count);
    Node *nodes = zeroed<Node>(kNodes);
    int *counts = zeroed<int>(kCells), *starts = zeroed<int>(kCells + 1);
    long long *momentum;
    CHECK(cudaMallocManaged(&momentum, steps * sizeof(long long)));
    std::fill(momentum, momentum + steps, 0);
    for (int step = 0; step < steps; step++) {
        CHECK(cudaMemset(counts, 0, kCells * sizeof(int)));
        CHECK(cudaMemset(nodes, 0, kNodes * sizeof(Node)));
        count_cells<<<8, kThreads>>>(count, current, counts);
        scan_cells<<<1, kCells>>>(counts, starts);
        scatter_cells<<<8, kThreads>>>(count, current, starts, counts, sorted);
        repulsion<<<kCells / (kThreads / 32), kThreads>>>(sorted, starts, forces);
        fill_leaves<<<blocks, kThreads>>>(count, sorted, nodes);
        for (int level = kLevels - 2; level >= 0; level--)
            sum_level<<<((1 << (2 * level)) + kThreads - 1) / kThreads, kThreads>>>(level, nodes);
        attraction<<<blocks, kThreads>>>(count, sorted, nodes, forces);
        integrate<<<blocks, kThreads, kThreads * sizeof(long long)>>>(count, sorted, forces, momentum + step);
        std::swap(current, sorted);
        host_step(p, particles);
    }
    FINISH();
    std::vector<Particle> got(count);
    CHECK(cudaMemcpy(got.data(), current, count * sizeof(Particle), cudaMemcpyDeviceToHost));
    std::sort(got.begin(), got.end(), [](const Particle &a, const Particle &b) { return a.id < b.id; });
    int wrong = 0;
    long long expected = 0;
    for (int i = 0; i < count; i++) {
        const Particle &a = got[i], &b = particles[i];
        wrong += a.x != b.x || a.y != b.y || a.vx != b.vx || a.vy != b.vy || a.id != b.id;
        expected += (long long)b.mass * (std::abs(b.vx) + std::abs(b.vy));
    }
    wrong += momentum[steps - 1] != expected;
    std::printf("particles %016llx, momentum %lld, %d differ from the host's\n",
                digest_bytes(got.data(), got.size() * sizeof(Particle)), momentum[steps - 1], wrong);
    for (void *memory : {static_cast<void *>(current), static_cast<void *>(sorted), static_cast<void *>(forces),
                         static_cast<void *>(nodes), static_cast<void *>(counts), static_cast<void *>(starts),
                         static_cast<void *>(momentum)})
        CHECK(cudaFree(memory));
    return wrong != 0;
}
