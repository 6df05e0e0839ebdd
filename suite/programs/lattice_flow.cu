// about: shallow water and a lattice gas on pitched grids split into strips, whose halos travel between streams
//
// Two flow solvers in integers. The lattice gas (four directions, particles
// collide head on) keeps its collision rules in constant memory and its cells
// in bytes of pitched rows, with a tile and its halo in shared memory. The
// shallow-water solver works on strips of the domain, one stream each: rows at
// the edge are exchanged by copies between the strips, ordered by events, and
// the steps of all strips are captured into one graph. Sums over the grid must
// not change: mass is conserved to the last unit. What is counted is read through
// textures on pitched and on linear memory.
#include "case.h"
#include <algorithm>
#include <cstdint>

constexpr int kTileX = 32, kTileY = 8;

// ---------------------------------------------------------------- lattice gas

// Bits of a cell: a particle that moves east, north, west, south; a wall.
enum Bit : uint8_t { East = 1, North = 2, West = 4, South = 8, Wall = 16 };

__constant__ uint8_t collisions[32];

struct Grid {
    uint8_t *cells;
    size_t pitch;
    int width, height;

    __host__ __device__ uint8_t &at(int x, int y) const { return cells[y * pitch + x]; }
};

__host__ __device__ inline uint8_t collide(uint8_t cell) {
    if (cell & Wall) {
        // Walls send everything back.
        return Wall | (cell & East ? West : 0) | (cell & West ? East : 0) | (cell & North ? South : 0) |
               (cell & South ? North : 0);
    }
    if ((cell & 15) == (East | West)) return North | South;
    if ((cell & 15) == (North | South)) return East | West;
    return cell;
}

// Gathers what moves into a cell from its four neighbours; rows and columns
// wrap around.
__global__ void gas_step(Grid in, Grid out) {
    __shared__ uint8_t tile[kTileY + 2][kTileX + 2];
    const int x0 = blockIdx.x * kTileX, y0 = blockIdx.y * kTileY;
    for (int i = threadIdx.y * kTileX + threadIdx.x; i < (kTileX + 2) * (kTileY + 2); i += kTileX * kTileY) {
        const int tx = i % (kTileX + 2), ty = i / (kTileX + 2);
        const int x = (x0 + tx - 1 + in.width) % in.width, y = (y0 + ty - 1 + in.height) % in.height;
        tile[ty][tx] = collisions[in.at(x, y)];
    }
    __syncthreads();
    const int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
    if (x >= in.width || y >= in.height) return;
    const int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    out.at(x, y) = (tile[ty][tx - 1] & East) | (tile[ty][tx + 1] & West) | (tile[ty + 1][tx] & North) |
                   (tile[ty - 1][tx] & South) | (tile[ty][tx] & Wall);
}

// Particles in each block of 16 x 16 cells, a warp a block. Cells come through
// a texture, whose border is empty; how many particles a cell has, from a table
// that is a texture too.
__global__ void densities(cudaTextureObject_t cells, cudaTextureObject_t particles, uint16_t *counts, size_t pitch) {
    const int lane = threadIdx.x, bx = blockIdx.x * 16, by = blockIdx.y * 16;
    int sum = 0;
    for (int i = lane; i < 256; i += 32) {
        const unsigned cell = tex2D<unsigned char>(cells, bx + i % 16 + 0.5f, by + i / 16 + 0.5f);
        sum += tex1Dfetch<int>(particles, cell);
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
    if (lane == 0) {
        uint16_t *row = reinterpret_cast<uint16_t *>(reinterpret_cast<char *>(counts) + blockIdx.y * pitch);
        row[blockIdx.x] = static_cast<uint16_t>(sum);
    }
}

// A texture object over rows of bytes.
cudaTextureObject_t texture_of(const Grid &grid) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = grid.cells;
    resource.res.pitch2D.desc = cudaCreateChannelDesc<unsigned char>();
    resource.res.pitch2D.width = grid.width;
    resource.res.pitch2D.height = grid.height;
    resource.res.pitch2D.pitchInBytes = grid.pitch;
    cudaTextureDesc sampler = {};
    sampler.addressMode[0] = sampler.addressMode[1] = cudaAddressModeBorder;
    sampler.filterMode = cudaFilterModePoint;
    sampler.readMode = cudaReadModeElementType;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &sampler, nullptr));
    return texture;
}

// And over a table of integers.
cudaTextureObject_t texture_of(int *table, size_t count) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = table;
    resource.res.linear.desc = cudaCreateChannelDesc<int>();
    resource.res.linear.sizeInBytes = count * sizeof(int);
    cudaTextureDesc sampler = {};
    sampler.readMode = cudaReadModeElementType;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &sampler, nullptr));
    return texture;
}

int gas(int width, int height, int steps) {
    uint8_t rules[32];
    for (int i = 0; i < 32; i++) rules[i] = collide(static_cast<uint8_t>(i));
    CHECK(cudaMemcpyToSymbol(collisions, rules, sizeof(rules)));
    std::vector<uint8_t> cells(width * height), next(cells.size());
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint8_t cell = (x * 5 + y * 3 + x * y) % 7 < 2 ? East | North : (x * 11 + y * 13) % 5 == 0 ? West | South : 0;
            if ((x - width / 2) * (x - width / 2) + (y - height / 2) * (y - height / 2) < 81) cell = Wall;
            cells[y * width + x] = cell;
        }
    Grid grids[2];
    for (Grid &grid : grids) {
        grid = {nullptr, 0, width, height};
        CHECK(cudaMallocPitch(&grid.cells, &grid.pitch, width, height));
    }
    CHECK(cudaMemcpy2D(grids[0].cells, grids[0].pitch, cells.data(), width, width, height, cudaMemcpyHostToDevice));
    const dim3 blocks((width + kTileX - 1) / kTileX, (height + kTileY - 1) / kTileY);
    for (int step = 0; step < steps; step++) {
        gas_step<<<blocks, dim3(kTileX, kTileY)>>>(grids[step % 2], grids[(step + 1) % 2]);
        auto at = [&](int x, int y) { return collide(cells[(y + height) % height * width + (x + width) % width]); };
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                next[y * width + x] = (at(x - 1, y) & East) | (at(x + 1, y) & West) | (at(x, y + 1) & North) |
                                      (at(x, y - 1) & South) | (at(x, y) & Wall);
        std::swap(cells, next);
    }
    const Grid &last = grids[steps % 2];
    const int bw = (width + 15) / 16, bh = (height + 15) / 16;
    uint16_t *counts;
    size_t pitch;
    CHECK(cudaMallocPitch(&counts, &pitch, bw * sizeof(uint16_t), bh));
    std::vector<int> bits(32);
    for (int i = 0; i < 32; i++) bits[i] = __builtin_popcount(i & 15);
    int *table = upload(bits);
    const cudaTextureObject_t pixels = texture_of(last), particle_table = texture_of(table, bits.size());
    densities<<<dim3(bw, bh), 32>>>(pixels, particle_table, counts, pitch);
    FINISH();
    CHECK(cudaDestroyTextureObject(pixels));
    CHECK(cudaDestroyTextureObject(particle_table));
    CHECK(cudaFree(table));
    std::vector<uint8_t> got(width * height);
    std::vector<uint16_t> blocks_got(bw * bh);
    CHECK(cudaMemcpy2D(got.data(), width, last.cells, last.pitch, width, height, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy2D(blocks_got.data(), bw * 2, counts, pitch, bw * 2, bh, cudaMemcpyDeviceToHost));
    int particles = 0, expected = 0;
    for (uint16_t count : blocks_got) particles += count;
    for (uint8_t cell : cells) expected += __builtin_popcount(cell & 15);
    const bool right = got == cells && particles == expected;
    std::printf("gas %016llx, %d particles, %s\n", digest_bytes(got.data(), got.size()), particles, right ? "right" : "WRONG");
    for (Grid &grid : grids) CHECK(cudaFree(grid.cells));
    CHECK(cudaFree(counts));
    return !right;
}

// -------------------------------------------------------------- shallow water

// Columns of water and its momentum; each field has a row of halo at both ends.
struct Cell {
    int depth, px, py, pad;
};

struct Strip {
    Cell *cells;
    size_t pitch;   // in bytes
    int width, rows;  // rows without the halo; row 0 is the halo

    __host__ __device__ Cell *row(int y) const {
        return reinterpret_cast<Cell *>(reinterpret_cast<char *>(cells) + y * pitch);
    }
};

// What flows through a face, from the mean of its two sides. Small steps, so
// that depth stays positive; the sign is that of the lower cell's loss.
__host__ __device__ inline int face(int a, int b, int pa, int pb) { return (pa + pb) / 16 + (a - b) / 32; }

__host__ __device__ inline Cell water(const Cell &c, const Cell &west, const Cell &east, const Cell &north,
                                      const Cell &south) {
    Cell next = c;
    next.depth += face(west.depth, c.depth, west.px, c.px) - face(c.depth, east.depth, c.px, east.px);
    next.depth += face(north.depth, c.depth, north.py, c.py) - face(c.depth, south.depth, c.py, south.py);
    next.px += (west.depth - east.depth) / 16 - c.px / 64;
    next.py += (north.depth - south.depth) / 16 - c.py / 64;
    return next;
}

// 16 bytes a cell: rows are read as vectors. Columns wrap around.
__global__ void water_step(Strip in, Strip out) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (x >= in.width || y > in.rows) return;
    auto load = [&](int cx, int cy) {
        const int4 raw = *reinterpret_cast<const int4 *>(&in.row(cy)[cx]);
        return Cell{raw.x, raw.y, raw.z, raw.w};
    };
    const int west = x == 0 ? in.width - 1 : x - 1, east = x == in.width - 1 ? 0 : x + 1;
    const Cell next = water(load(x, y), load(west, y), load(east, y), load(x, y - 1), load(x, y + 1));
    *reinterpret_cast<int4 *>(&out.row(y)[x]) = make_int4(next.depth, next.px, next.py, next.pad);
}

class Basin {
  public:
    Basin(int width, int height, int strips) : width_(width), height_(height) {
        CHECK(cudaEventCreateWithFlags(&start_, cudaEventDisableTiming));
        for (int i = 0; i < strips; i++) {
            Part part;
            part.first = height * i / strips;
            const int rows = height * (i + 1) / strips - part.first;
            for (Strip &side : part.sides) {
                side = {nullptr, 0, width, rows};
                CHECK(cudaMallocPitch(&side.cells, &side.pitch, width * sizeof(Cell), rows + 2));
            }
            CHECK(cudaStreamCreateWithFlags(&part.stream, cudaStreamNonBlocking));
            CHECK(cudaEventCreateWithFlags(&part.stepped, cudaEventDisableTiming));
            CHECK(cudaEventCreateWithFlags(&part.copied, cudaEventDisableTiming));
            parts_.push_back(part);
        }
    }
    ~Basin() {
        for (Part &part : parts_) {
            for (Strip &side : part.sides) CHECK(cudaFree(side.cells));
            CHECK(cudaStreamDestroy(part.stream));
            CHECK(cudaEventDestroy(part.stepped));
            CHECK(cudaEventDestroy(part.copied));
        }
        CHECK(cudaEventDestroy(start_));
    }

    void set(const std::vector<Cell> &cells) {
        const size_t bytes = width_ * sizeof(Cell);
        for (Part &part : parts_)
            for (Strip &side : part.sides)
                CHECK(cudaMemcpy2D(side.row(1), side.pitch, &cells[part.first * width_], bytes, bytes, side.rows,
                                   cudaMemcpyHostToDevice));
    }

    std::vector<Cell> get() {
        std::vector<Cell> cells(width_ * height_);
        const size_t bytes = width_ * sizeof(Cell);
        for (Part &part : parts_) {
            const Strip &side = part.sides[0];
            CHECK(cudaMemcpy2D(&cells[part.first * width_], bytes, side.row(1), side.pitch, bytes, side.rows,
                               cudaMemcpyDeviceToHost));
        }
        return cells;
    }

    // Two steps a launch, so that the answer is where it began.
    void run(int pairs) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        cudaStream_t main = parts_[0].stream;
        CHECK(cudaStreamBeginCapture(main, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaEventRecord(start_, main));
        for (Part &part : parts_)
            if (part.stream != main) CHECK(cudaStreamWaitEvent(part.stream, start_, 0));
        step(0);
        step(1);
        for (Part &part : parts_)
            if (part.stream != main) {
                CHECK(cudaEventRecord(part.stepped, part.stream));
                CHECK(cudaStreamWaitEvent(main, part.stepped, 0));
            }
        CHECK(cudaStreamEndCapture(main, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < pairs; i++) CHECK(cudaGraphLaunch(exec, main));
        CHECK(cudaStreamSynchronize(main));
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }

  private:
    struct Part {
        Strip sides[2];
        int first;
        cudaStream_t stream;
        cudaEvent_t stepped, copied;
    };

    // Halos of `from` are filled from the neighbours, then all strips step.
    void step(int from) {
        const int count = static_cast<int>(parts_.size());
        for (Part &part : parts_) CHECK(cudaEventRecord(part.stepped, part.stream));
        for (int i = 0; i < count; i++) {
            Part &part = parts_[i], &above = parts_[(i + count - 1) % count], &below = parts_[(i + 1) % count];
            const Strip &mine = part.sides[from];
            CHECK(cudaStreamWaitEvent(part.stream, above.stepped, 0));
            CHECK(cudaStreamWaitEvent(part.stream, below.stepped, 0));
            const size_t bytes = width_ * sizeof(Cell);
            const Strip &up = above.sides[from], &down = below.sides[from];
            CHECK(cudaMemcpyAsync(mine.row(0), up.row(up.rows), bytes, cudaMemcpyDeviceToDevice, part.stream));
            CHECK(cudaMemcpyAsync(mine.row(mine.rows + 1), down.row(1), bytes, cudaMemcpyDeviceToDevice, part.stream));
            CHECK(cudaEventRecord(part.copied, part.stream));
        }
        for (int i = 0; i < count; i++) {
            Part &part = parts_[i];
            // Nobody may still read the rows that this step overwrites.
            CHECK(cudaStreamWaitEvent(part.stream, parts_[(i + count - 1) % count].copied, 0));
            CHECK(cudaStreamWaitEvent(part.stream, parts_[(i + 1) % count].copied, 0));
            const dim3 threads(32, 4), blocks((width_ + 31) / 32, (part.sides[0].rows + 3) / 4);
            water_step<<<blocks, threads, 0, part.stream>>>(part.sides[from], part.sides[1 - from]);
        }
    }

    int width_, height_;
    std::vector<Part> parts_;
    cudaEvent_t start_;
};

int shallow(int width, int height, int strips, int pairs) {
    std::vector<Cell> cells(width * height), next(cells.size());
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const int dx = x - width / 3, dy = y - height / 2, square = dx * dx + dy * dy;
            cells[y * width + x] = {100000 + (square < 100 ? (100 - square) * 400 : 0), 0, 0, x ^ y};
        }
    long long before = 0, after = 0;
    for (const Cell &cell : cells) before += cell.depth;
    Basin basin(width, height, strips);
    basin.set(cells);
    basin.run(pairs);
    for (int step = 0; step < 2 * pairs; step++) {
        auto at = [&](int x, int y) -> const Cell & { return cells[(y + height) % height * width + (x + width) % width]; };
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                next[y * width + x] = water(at(x, y), at(x - 1, y), at(x + 1, y), at(x, y - 1), at(x, y + 1));
        std::swap(cells, next);
    }
    const std::vector<Cell> got = basin.get();
    int wrong = 0;
    for (size_t i = 0; i < got.size(); i++) {
        const Cell &a = got[i], &b = cells[i];
        wrong += a.depth != b.depth || a.px != b.px || a.py != b.py || a.pad != b.pad;
        after += a.depth;
    }
    std::printf("water %016llx, volume %lld, %d cells wrong, %s\n", digest_bytes(got.data(), got.size() * sizeof(Cell)), after,
                wrong, after == before ? "conserved" : "NOT CONSERVED");
    return wrong != 0 || after != before;
}

int main() {
    int failed = gas(150, 93, 24);
    failed += shallow(101, 80, 3, 12);
    failed += shallow(64, 7, 1, 5);
    return failed;
}
