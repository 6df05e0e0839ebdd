// The bench kernels: ordinary CUDA C++ of seventeen kinds, from streams that
// the memory bus bounds to products that the arithmetic does. Values are small
// integers held in floats where sums would depend on their order, so that
// results can be compared byte by byte.
#include "harness.h"

static int blocks_for(long long n, int threads) {
    return static_cast<int>((n + threads - 1) / threads);
}

// ---- initial values, made on the device -----------------------------------

__device__ unsigned scramble(unsigned x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

__global__ void set_floats(float *out, long long n, unsigned seed) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = static_cast<float>(scramble(static_cast<unsigned>(i) + seed) & 15u);
}

__global__ void set_indices(int *out, long long n, unsigned range, unsigned seed) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = static_cast<int>(scramble(static_cast<unsigned>(i) * 2u + seed) % range);
}

__global__ void set_bytes(unsigned char *out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = static_cast<unsigned char>(scramble(static_cast<unsigned>(i)));
}

static float *floats(Bench &bench, long long n, unsigned seed) {
    float *out = bench.allocate<float>(n);
    set_floats<<<blocks_for(n, 256), 256>>>(out, n, seed);
    return out;
}

static int *indices(Bench &bench, long long n, unsigned range, unsigned seed) {
    int *out = bench.allocate<int>(n);
    set_indices<<<blocks_for(n, 256), 256>>>(out, n, range, seed);
    return out;
}

static float *zeros(Bench &bench, long long n) {
    float *out = bench.allocate<float>(n);
    CHECK(cudaMemset(out, 0, n * sizeof(float)));
    return out;
}

// ---- streams ----------------------------------------------------------------

__global__ void triad(const float *a, const float *b, float *c, float s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + s * b[i];
}

static void prepare_triad(Bench &bench, long long n) {
    float *a = floats(bench, n, 1), *b = floats(bench, n, 2), *c = zeros(bench, n);
    bench.keep(c, n);
    bench.launch = [=] { START(triad, blocks_for(n, 256), 256, a, b, c, 3.0f, n); };
}

__global__ void saxpy(int n, float a, const float *x, float *y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + y[i];
}

static void prepare_saxpy(Bench &bench, long long n) {
    float *x = floats(bench, n, 3), *y = zeros(bench, n);
    bench.keep(y, n);
    int blocks = std::min(blocks_for(n, 256), 132 * 16);
    bench.reset = [=] { CHECK(cudaMemset(y, 0, n * sizeof(float))); };
    bench.launch = [=] { START(saxpy, blocks, 256, n, 2.0f, x, y); };
}

__global__ void copy_float4(const float4 *in, float4 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
}

static void prepare_copy_float4(Bench &bench, long long n) {
    float *in = floats(bench, n, 4), *out = zeros(bench, n);
    bench.keep(out, n);
    long long vectors = n / 4;
    bench.launch = [=] {
        START(copy_float4, blocks_for(vectors, 256), 256, reinterpret_cast<const float4 *>(in),
              reinterpret_cast<float4 *>(out), vectors);
    };
}

// ---- products ---------------------------------------------------------------

__global__ void gemm_naive(const float *a, const float *b, float *c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

static void prepare_gemm_naive(Bench &bench, long long n) {
    float *a = floats(bench, n * n, 5), *b = floats(bench, n * n, 6), *c = zeros(bench, n * n);
    bench.keep(c, n * n);
    dim3 block(16, 16), grid(blocks_for(n, 16), blocks_for(n, 16));
    bench.launch = [=] { START(gemm_naive, grid, block, a, b, c, n); };
}

// 64 x 64 results a block, 4 x 4 a thread; n is a multiple of 64.
__global__ void gemm_tiled(const float *a, const float *b, float *c, int n) {
    __shared__ float tile_a[16][64 + 1];
    __shared__ float tile_b[16][64];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    int row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
    float sums[4][4] = {};
    for (int k0 = 0; k0 < n; k0 += 16) {
        for (int i = threadIdx.x; i < 64 * 16; i += 256) {
            tile_a[i % 16][i / 16] = a[(row0 + i / 16) * n + k0 + i % 16];
            tile_b[i / 64][i % 64] = b[(k0 + i / 64) * n + column0 + i % 64];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++) {
            float left[4], right[4];
#pragma unroll
            for (int i = 0; i < 4; i++) left[i] = tile_a[k][ty * 4 + i];
#pragma unroll
            for (int j = 0; j < 4; j++) right[j] = tile_b[k][tx + j * 16];
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            c[(row0 + ty * 4 + i) * n + column0 + tx + j * 16] = sums[i][j];
}

static void prepare_gemm_tiled(Bench &bench, long long n) {
    float *a = floats(bench, n * n, 7), *b = floats(bench, n * n, 8), *c = zeros(bench, n * n);
    bench.keep(c, n * n);
    dim3 grid(n / 64, n / 64);
    bench.launch = [=] { START(gemm_tiled, grid, 256, a, b, c, n); };
}

// One warp a row.
__global__ void matvec_row(const float *matrix, const float *x, float *y, int rows, int columns) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0;
    for (int k = lane; k < columns; k += 32) sum += matrix[(long long)row * columns + k] * x[k];
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0) y[row] = sum;
}

static void prepare_matvec_row(Bench &bench, long long n) {
    float *matrix = floats(bench, n * n, 9), *x = floats(bench, n, 10), *y = zeros(bench, n);
    bench.keep(y, n);
    bench.launch = [=] { START(matvec_row, blocks_for(n, 8), 256, matrix, x, y, n, n); };
}

// One thread a column of a row-major matrix: y = transpose(matrix) x.
__global__ void matvec_column(const float *matrix, const float *x, float *y, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    float sum = 0;
    for (int row = 0; row < rows; row++) sum += matrix[row * columns + column] * x[row];
    y[column] = sum;
}

static void prepare_matvec_column(Bench &bench, long long n) {
    float *matrix = floats(bench, n * n, 11), *x = floats(bench, n, 12), *y = zeros(bench, n);
    bench.keep(y, n);
    bench.launch = [=] { START(matvec_column, blocks_for(n, 64), 64, matrix, x, y, n, n); };
}

// ---- stencils ---------------------------------------------------------------

__global__ void jacobi_2d(const float *in, float *out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
        out[y * n + x] = 0.25f * (in[y * n + x - 1] + in[y * n + x + 1] + in[(y - 1) * n + x] +
                                  in[(y + 1) * n + x]);
}

static void prepare_jacobi_2d(Bench &bench, long long n) {
    float *in = floats(bench, n * n, 13), *out = zeros(bench, n * n);
    bench.keep(out, n * n);
    dim3 block(32, 8), grid(blocks_for(n, 32), blocks_for(n, 8));
    bench.launch = [=] { START(jacobi_2d, grid, block, in, out, n); };
}

__global__ void stencil_3d(const float *in, float *out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
    int plane = n * n;
    for (int z = 1; z < n - 1; z++) {
        int at = z * plane + y * n + x;
        out[at] = 0.5f * in[at] + 0.125f * (in[at - 1] + in[at + 1] + in[at - n] + in[at + n] +
                                            in[at - plane] + in[at + plane]);
    }
}

static void prepare_stencil_3d(Bench &bench, long long n) {
    float *in = floats(bench, n * n * n, 14), *out = zeros(bench, n * n * n);
    bench.keep(out, n * n * n);
    dim3 block(32, 8), grid(blocks_for(n, 32), blocks_for(n, 8));
    bench.launch = [=] { START(stencil_3d, grid, block, in, out, n); };
}

// A collide-and-stream step of a D2Q9 lattice, one array a direction.
__constant__ int lattice_x[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int lattice_y[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};

__global__ void d2q9(const float *from, float *to, int n, float omega) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n) return;
    int cells = n * n, at = y * n + x;
    float f[9], density = 0, ux = 0, uy = 0;
#pragma unroll
    for (int d = 0; d < 9; d++) {
        int from_x = x - lattice_x[d], from_y = y - lattice_y[d];
        from_x = from_x < 0 ? n - 1 : from_x == n ? 0 : from_x;
        from_y = from_y < 0 ? n - 1 : from_y == n ? 0 : from_y;
        f[d] = from[d * cells + from_y * n + from_x];
        density += f[d];
        ux += f[d] * lattice_x[d];
        uy += f[d] * lattice_y[d];
    }
    float inverse = 1.0f / (density + 1.0f);
    ux *= inverse;
    uy *= inverse;
    float square = 1.5f * (ux * ux + uy * uy);
#pragma unroll
    for (int d = 0; d < 9; d++) {
        float weight = d == 0 ? 4.0f / 9 : d < 5 ? 1.0f / 9 : 1.0f / 36;
        float along = 3.0f * (lattice_x[d] * ux + lattice_y[d] * uy);
        float equilibrium = weight * density * (1.0f + along + 0.5f * along * along - square);
        to[d * cells + at] = f[d] + omega * (equilibrium - f[d]);
    }
}

static void prepare_d2q9(Bench &bench, long long n) {
    float *from = floats(bench, 9 * n * n, 15), *to = zeros(bench, 9 * n * n);
    bench.keep(to, 9 * n * n);
    dim3 block(64, 4), grid(blocks_for(n, 64), blocks_for(n, 4));
    bench.launch = [=] { START(d2q9, grid, block, from, to, n, 0.6f); };
}

__global__ void transpose(const float *in, float *out, int n) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < n) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

static void prepare_transpose(Bench &bench, long long n) {
    float *in = floats(bench, n * n, 16), *out = zeros(bench, n * n);
    bench.keep(out, n * n);
    dim3 block(32, 8), grid(blocks_for(n, 32), blocks_for(n, 32));
    bench.launch = [=] { START(transpose, grid, block, in, out, n); };
}

// ---- sums and counts --------------------------------------------------------

__global__ void reduction(const int *in, int *out, int n) {
    __shared__ int partial[256];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half >>= 1) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, partial[0]);
}

static void prepare_reduction(Bench &bench, long long n) {
    int *in = indices(bench, n, 1000, 17), *out = bench.allocate<int>(1);
    bench.keep(out, 1);
    int blocks = std::min(blocks_for(n, 256), 132 * 8);
    bench.reset = [=] { CHECK(cudaMemset(out, 0, sizeof(int))); };
    bench.launch = [=] { START(reduction, blocks, 256, in, out, n); };
}

__global__ void histogram(const unsigned char *keys, unsigned *bins, int n) {
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[keys[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

static void prepare_histogram(Bench &bench, long long n) {
    unsigned char *keys = bench.allocate<unsigned char>(n);
    set_bytes<<<blocks_for(n, 256), 256>>>(keys, n);
    unsigned *bins = bench.allocate<unsigned>(256);
    bench.keep(bins, 256);
    int blocks = std::min(blocks_for(n, 256), 132 * 8);
    bench.reset = [=] { CHECK(cudaMemset(bins, 0, 256 * sizeof(unsigned))); };
    bench.launch = [=] { START(histogram, blocks, 256, keys, bins, n); };
}

// ---- data-dependent addresses -------------------------------------------------

__global__ void csr_spmv(const int *offsets, const int *columns, const float *values,
                         const float *x, float *y, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int k = offsets[row]; k < offsets[row + 1]; k++) sum += values[k] * x[columns[k]];
    y[row] = sum;
}

// Rows of 8 to 24 entries; the offsets are a running sum.
static std::vector<int> row_offsets(long long rows) {
    std::vector<int> offsets(rows + 1);
    for (long long i = 0; i < rows; i++) offsets[i + 1] = offsets[i] + 8 + (i * 7) % 17;
    return offsets;
}

static void prepare_csr_spmv(Bench &bench, long long rows) {
    std::vector<int> host = row_offsets(rows);
    long long entries = host.back();
    int *offsets = bench.upload(host);
    int *columns = indices(bench, entries, rows, 18);
    float *values = floats(bench, entries, 19), *x = floats(bench, rows, 20);
    float *y = zeros(bench, rows);
    bench.keep(y, rows);
    bench.launch = [=] {
        START(csr_spmv, blocks_for(rows, 128), 128, offsets, columns, values, x, y, rows);
    };
}

__global__ void gather(const float *in, const int *index, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[index[i]];
}

static void prepare_gather(Bench &bench, long long n) {
    float *in = floats(bench, n, 21), *out = zeros(bench, n);
    int *index = indices(bench, n, n, 22);
    bench.keep(out, n);
    bench.launch = [=] { START(gather, blocks_for(n, 256), 256, in, index, out, n); };
}

// One level of a breadth-first search over a CSR graph.
__global__ void bfs_step(const int *offsets, const int *edges, int *level, int nodes, int current) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || level[node] != current) return;
    for (int k = offsets[node]; k < offsets[node + 1]; k++) {
        int next = edges[k];
        if (level[next] < 0) level[next] = current + 1;
    }
}

__global__ void start_levels(int *level, int nodes) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node < nodes) level[node] = node % 4 == 0 ? 0 : -1;
}

static void prepare_bfs_step(Bench &bench, long long nodes) {
    std::vector<int> host = row_offsets(nodes);
    int *offsets = bench.upload(host);
    int *edges = indices(bench, host.back(), nodes, 23);
    int *level = bench.allocate<int>(nodes);
    bench.keep(level, nodes);
    bench.reset = [=] { start_levels<<<blocks_for(nodes, 256), 256>>>(level, nodes); };
    bench.launch = [=] {
        START(bfs_step, blocks_for(nodes, 256), 256, offsets, edges, level, nodes, 0);
    };
}

// ---- arithmetic -------------------------------------------------------------

__global__ void n_body(const float4 *bodies, float4 *forces, int n) {
    __shared__ float4 tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
    float fx = 0, fy = 0, fz = 0;
    for (int start = 0; start < n; start += 256) {
        int other = start + threadIdx.x;
        tile[threadIdx.x] = other < n ? bodies[other] : make_float4(0, 0, 0, 0);
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < 256; k++) {
            float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            float square = dx * dx + dy * dy + dz * dz + 0.5f;
            float inverse = rsqrtf(square);
            float strength = tile[k].w * inverse * inverse * inverse;
            fx += dx * strength;
            fy += dy * strength;
            fz += dz * strength;
        }
        __syncthreads();
    }
    if (i < n) forces[i] = make_float4(fx, fy, fz, 0);
}

static void prepare_n_body(Bench &bench, long long n) {
    float *bodies = floats(bench, n * 4, 24), *forces = zeros(bench, n * 4);
    bench.keep(forces, n * 4);
    bench.launch = [=] {
        START(n_body, blocks_for(n, 256), 256, reinterpret_cast<const float4 *>(bodies),
              reinterpret_cast<float4 *>(forces), n);
    };
}

static const Entry entries[] = {
    {"triad", 1 << 26, 5000, prepare_triad},
    {"saxpy", 1 << 26, 5000, prepare_saxpy},
    {"gemm_naive", 2048, 40, prepare_gemm_naive},
    {"gemm_tiled", 4096, 64, prepare_gemm_tiled},
    {"jacobi_2d", 8192, 70, prepare_jacobi_2d},
    {"stencil_3d", 512, 20, prepare_stencil_3d},
    {"matvec_row", 16384, 100, prepare_matvec_row},
    {"matvec_column", 16384, 100, prepare_matvec_column},
    {"reduction", 1 << 26, 5000, prepare_reduction},
    {"histogram", 1 << 26, 5000, prepare_histogram},
    {"csr_spmv", 1 << 22, 500, prepare_csr_spmv},
    {"gather", 1 << 26, 5000, prepare_gather},
    {"bfs_step", 1 << 22, 500, prepare_bfs_step},
    {"n_body", 1 << 16, 300, prepare_n_body},
    {"copy_float4", 1 << 26, 5000, prepare_copy_float4},
    {"d2q9", 4096, 40, prepare_d2q9},
    {"transpose", 8192, 70, prepare_transpose},
};

// (`fence.cu` has the kernels, and a main of its own.)
#ifndef BENCH_KERNELS_ONLY
int main(int argc, char **argv) {
    return bench_main(argc, argv, entries, sizeof entries / sizeof entries[0]);
}
#endif
