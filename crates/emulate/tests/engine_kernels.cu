// Kernels that the engine's tests run, one idea each. Expected results are
// computed on the host in engine_kernels.rs.
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__constant__ int weights[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ unsigned long long total = 5;
struct Shape { char kind; double size; short tags[3]; const int *data; };

extern "C" __global__ void warp_sum(const float *x, float *out, int n) {
    float s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    __shared__ float part[32];
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x < 32) {
        s = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
        for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
        if (threadIdx.x == 0) atomicAdd(out, s);
    }
}

extern "C" __global__ void scan(const int *x, int *y) {
    extern __shared__ int buffer[];
    int t = threadIdx.x;
    buffer[t] = x[t];
    __syncthreads();
    for (int d = 1; d < blockDim.x; d <<= 1) {
        int v = t >= d ? buffer[t - d] : 0;
        __syncthreads();
        buffer[t] += v;
        __syncthreads();
    }
    y[t] = buffer[t];
}

extern "C" __global__ void histogram(const unsigned char *x, unsigned *bins, int n) {
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

extern "C" __global__ void tiled(const float *A, const float *B, float *C, int n) {
    __shared__ float a[16][16], b[16][17];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float s = 0;
    for (int k = 0; k < n; k += 16) {
        a[y][x] = A[row * n + k + x];
        b[y][x] = B[(k + y) * n + col];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++) s += a[y][i] * b[i][x];
        __syncthreads();
    }
    C[row * n + col] = s;
}

extern "C" __global__ void bitonic(unsigned *x) {
    __shared__ unsigned s[512];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int k = 2; k <= 512; k <<= 1)
        for (int j = k >> 1; j; j >>= 1) {
            int other = t ^ j;
            if (other > t) {
                unsigned a = s[t], b = s[other];
                if ((a > b) == ((t & k) == 0)) { s[t] = b; s[other] = a; }
            }
            __syncthreads();
        }
    x[t] = s[t];
}

__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
extern "C" __global__ void recursion(int *out) { out[threadIdx.x] = fib(threadIdx.x % 12); }

typedef int (*Operation)(int, int);
__device__ __noinline__ int plus(int a, int b) { return a + b; }
__device__ __noinline__ int minus(int a, int b) { return a - b; }
__device__ __noinline__ int times(int a, int b) { return a * b; }
__device__ Operation operations[3] = {plus, minus, times};
extern "C" __global__ void pointers(int *out) { out[threadIdx.x] = operations[threadIdx.x % 3](threadIdx.x, 7); }

extern "C" __global__ void choice(int *out) {
    int t = threadIdx.x, r;
    switch (t % 9) {
        case 0: r = t * 3; break;
        case 1: r = t - 100; break;
        case 2: r = t ^ 0x55; break;
        case 3: r = t << 3; break;
        case 4: r = weights[t % 8]; break;
        case 5: r = t / 7; break;
        case 6: r = -t; break;
        case 7: r = t * t; break;
        default: r = 1;
    }
    out[t] = r;
}

__device__ int lock;
extern "C" __global__ void spin(int *value) {
    bool done = false;
    while (!done) {
        if (atomicCAS(&lock, 0, 1) == 0) {
            *(volatile int *)value = *(volatile int *)value + 1;
            __threadfence();
            atomicExch(&lock, 0);
            done = true;
        }
    }
}

// A lock taken in the plain way: lanes of one warp wait for each other.
extern "C" __global__ void spin_plain(int *value) {
    while (atomicCAS(&lock, 0, 1) != 0) { }
    *(volatile int *)value = *(volatile int *)value + 1;
    __threadfence();
    atomicExch(&lock, 0);
}

extern "C" __global__ void print(int n) {
    if (threadIdx.x < n)
        printf("thread %d of %u: %5.2f|%-6s|%c|%lld|%x|%%|%g\n", threadIdx.x, blockDim.x, threadIdx.x * 1.5, threadIdx.x % 2 ? "odd" : "even",
               'a' + threadIdx.x, -1234567890123ll * (int)threadIdx.x, 0xbeef + threadIdx.x, 1e10 * threadIdx.x);
}

extern "C" __global__ void lists(int *out) {
    int *p = (int *)malloc(4 * (threadIdx.x + 1));
    if (!p) { out[threadIdx.x] = -1; return; }
    for (int i = 0; i <= threadIdx.x; i++) p[i] = i;
    int s = 0;
    for (int i = 0; i <= threadIdx.x; i++) s += p[i];
    out[threadIdx.x] = s;
    free(p);
}

extern "C" __global__ void nested(int *out) {
    int t = threadIdx.x, s = 0;
    for (int i = 0; i < t % 7; i++) {
        for (int j = 0; j < (t + i) % 5; j++) {
            if ((i + j + t) % 3 == 0) continue;
            if (j == 3) break;
            s += i * 10 + j;
        }
        unsigned m = __activemask();
        s += __popc(m) > 0;
    }
    // All lanes are together again.
    out[t] = s + (__activemask() == ~0u ? 1000 : 0);
}

extern "C" __global__ void halves(const __half2 *x, __half2 *y, const __nv_bfloat162 *u, __nv_bfloat162 *v, float *f) {
    int t = threadIdx.x;
    __half2 a = x[t];
    y[t] = __hfma2(a, a, __float2half2_rn(0.5f));
    __nv_bfloat162 b = u[t];
    v[t] = __hmul2(b, __hadd2(b, b));
    f[t] = __half2float(__low2half(a)) + __bfloat162float(__high2bfloat16(b)) + __half2float(hsqrt(__habs(__low2half(a))));
}

extern "C" __global__ void grid_barrier(int *data, int *out, int rounds) {
    cg::grid_group grid = cg::this_grid();
    int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 0; r < rounds; r++) {
        int v = data[(i + 1) % n];
        grid.sync();
        data[i] = v + 1;
        grid.sync();
    }
    out[i] = data[i];
}

extern "C" __global__ void shapes(Shape s, int n, double *out) {
    int t = threadIdx.x;
    double r = s.size * t + s.tags[t % 3] + s.kind;
    if (t < n) r += s.data[t];
    out[t] = r;
    atomicAdd(&total, (unsigned long long)t);
}

__device__ __noinline__ double weigh(Shape s, int t) { return s.tags[t % 3] * s.size + s.kind; }
extern "C" __global__ void by_value(Shape s, double *out) { out[threadIdx.x] = weigh(s, threadIdx.x); }
extern "C" __global__ void grid_constant(const __grid_constant__ Shape s, double *out) { const Shape *p = &s; out[threadIdx.x] = p->tags[threadIdx.x % 3] + p->size; }

extern "C" __global__ void local_array(int *out) {
    int a[32];
    for (int i = 0; i < 32; i++) a[i] = i * threadIdx.x;
    int s = 0, at = threadIdx.x % 32;
    for (int i = 0; i < 40; i++) { s += a[at]; at = (at * 5 + 1) % 32; }
    out[threadIdx.x] = s;
}

extern "C" __global__ void votes(unsigned *out) {
    unsigned t = threadIdx.x;
    unsigned b = __ballot_sync(~0u, t % 3 == 0);
    unsigned m = __match_any_sync(~0u, t % 4);
    int all = __all_sync(~0u, t < 64), any = __any_sync(~0u, t == 77);
    int s = __syncthreads_count(t % 2), o = __syncthreads_or(t == 99), a = __syncthreads_and(t < 128);
    out[t] = b ^ m ^ (all << 1) ^ (any << 2) ^ (s << 3) ^ (o << 12) ^ (a << 13);
}

extern "C" __global__ void tiles(int *out) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int v = threadIdx.x;
    for (int d = 4; d; d >>= 1) v += tile.shfl_down(v, d);
    out[threadIdx.x] = tile.shfl(v, 0);
    if (threadIdx.x % 3 == 0) {
        auto active = cg::coalesced_threads();
        out[threadIdx.x] += 10000 * active.size() + 100000 * active.thread_rank();
    }
}

extern "C" __global__ void arithmetic(const int *x, const unsigned *u, const double *d, long long *out) {
    int t = threadIdx.x;
    long long s = x[t] / (t + 1) + x[t] % (t + 1) + u[t] / 7 + u[t] % 13;
    s += __mulhi(x[t], 0x12345678) + (long long)__umulhi(u[t], 0x9abcdef0u) + __popc(u[t]) + __clz(x[t]) + __ffs(x[t]) + __brev(u[t]);
    s += (long long)(d[t] * 3.7) + (long long)floor(d[t]) + (long long)sqrt(fabs(d[t])) + __double2int_rn(d[t]);
    s += __byte_perm(u[t], x[t], 0x3715) + __funnelshift_l(u[t], x[t], t) + (x[t] >> (t % 31)) + __dp4a(x[t], (int)u[t], 5);
    s ^= (long long)x[t] * u[t] * 12345678901ll / (t + 3);
    out[t] = s;
}

extern "C" __global__ void vectors(const float4 *x, float4 *y, const uchar4 *c, short2 *s, const double2 *d, double2 *e) {
    int t = threadIdx.x;
    float4 v = x[t];
    y[t] = make_float4(v.w, v.z + 1, v.y * 2, v.x - 3);
    uchar4 b = c[t];
    s[t] = make_short2(b.x - b.y, -(b.z + b.w));
    double2 w = d[t];
    e[t] = make_double2(w.y, w.x);
}

extern "C" __global__ void atomics(int *i, unsigned *u, unsigned long long *l, float *f, double *d, unsigned short *h) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(i, t); atomicSub(i + 1, t); atomicMin(i + 2, -t); atomicMax(i + 3, t); atomicOr(i + 4, 1 << (t % 31)); atomicAnd(i + 5, ~(1 << (t % 31)));
    atomicXor(i + 6, t); atomicInc(u, 99); atomicDec(u + 1, 50); atomicExch(u + 2, 7u); atomicMin(u + 3, 1000u + t); atomicMax(u + 4, (unsigned)t);
    atomicAdd(l, 1ull << 33); atomicMax(l + 1, 1ull << (t % 60)); atomicAdd(f, 0.5f); atomicAdd(d, 0.25);
    atomicCAS(h, (unsigned short)t, (unsigned short)(t + 1));
}

extern "C" __global__ void math(const float *x, float *out, int n) {
    int t = threadIdx.x;
    float v = x[t];
    out[t] = sinf(v);
    out[n + t] = expf(v);
    out[2 * n + t] = logf(fabsf(v) + 1);
    out[3 * n + t] = powf(fabsf(v), 1.7f);
    out[4 * n + t] = v / (t + 1.5f);
    out[5 * n + t] = rsqrtf(fabsf(v) + 1);
    out[6 * n + t] = __expf(v) + __sinf(v) + __fdividef(v, 3.f);
    out[7 * n + t] = fminf(v, 0.5f) + fmaxf(v, -0.5f) + rintf(v) + truncf(v) + (v > 1 ? 1.f : 2.f);
    out[8 * n + t] = (float)tanh((double)v) + (float)exp((double)v);
}

extern "C" __global__ void early(int *out) {
    if (threadIdx.x % 2) return;
    __syncthreads();
    out[threadIdx.x] = 1;
    __syncwarp(0x55555555);
    out[threadIdx.x] += __popc(__ballot_sync(__activemask(), 1));
}

extern "C" __global__ void out_of_range(int *x) { x[1ull << 40] = 1; }
extern "C" __global__ void misaligned(char *x) { *(int *)(x + 1) = 1; }
extern "C" __global__ void asserting(int *x) { if (threadIdx.x == 3) __assert_fail("x == 0", "file.cu", 12, "asserting"); }
extern "C" __global__ void trapping() { __trap(); }
extern "C" __global__ void endless(volatile int *x) { while (*x == 0) { } }
__device__ __noinline__ int forever(volatile int *x) {
    if (*x == -1) return 0;
    int below = forever(x);
    return below + *x;
}
extern "C" __global__ void overflowing(int *x) { *x = forever(x); }
extern "C" __global__ void shared_overrun(int *x) { __shared__ int s[4]; s[threadIdx.x * 1000] = 1; __syncthreads(); *x = s[0]; }
extern "C" __global__ void deadlocked() { if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;"); }

extern "C" __global__ void wmma_product(const __half *a, const __half *b, float *c, int n) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 1.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(fa, a + k, n);
        wmma::load_matrix_sync(fb, b + k, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] *= 2;
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
