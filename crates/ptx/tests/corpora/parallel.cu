// Cooperation of threads: atomics of all kinds, warp functions, matrices,
// asynchronous copies, barriers, vectors, inline asm.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

namespace cg = cooperative_groups;

__global__ void atomics(int *i, unsigned *u, unsigned long long *l, float *f, double *d, __half2 *h, unsigned short *s) {
    __shared__ int shared_counter;
    int t = threadIdx.x;
    if (t == 0) shared_counter = 0;
    __syncthreads();
    atomicAdd(&shared_counter, 1);
    atomicSub(i, 2); atomicMin(i + 1, t); atomicMax(u, 3u); atomicAnd(i, 7); atomicOr(i, 8); atomicXor(i, 9);
    u[t] = atomicInc(u + 4, 100u) + atomicDec(u + 5, 50u) + atomicExch(u + 6, 1u);
    l[t] = atomicCAS(l, 1ull, 2ull) + atomicAdd(l + 1, 5ull);
    f[t] = atomicAdd(f, 1.5f); atomicAdd(d, 2.5); atomicAdd(h, __floats2half2_rn(1, 2));
    s[t] = atomicCAS(s, (unsigned short)1, (unsigned short)2);
    atomicAdd_system(i, 1); atomicAdd_block(i, 1);
    cuda::atomic_ref<int, cuda::thread_scope_device> reference(i[3]);
    reference.fetch_add(1, cuda::memory_order_release);
    i[4] = reference.load(cuda::memory_order_acquire) + shared_counter;
}

__global__ void warps(int *out, const int *in) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int v = in[block.thread_rank()];
    v += warp.shfl_down(v, 4);
    v += __ballot_sync(0xffffffff, v > 3) + __any_sync(0xff, v == 2) + __activemask();
#if __CUDA_ARCH__ >= 800
    v += __reduce_add_sync(0xffffffff, v);
#endif
    v += __match_any_sync(0xffffffff, v);
    int predicate;
    v += __match_all_sync(0xffffffff, v, &predicate) + predicate;
    v += cg::reduce(warp, v, cg::plus<int>());
    v += __syncthreads_count(v > 5) + __syncthreads_or(v);
    __syncwarp(0x0f);
    auto coalesced = cg::coalesced_threads();
    out[coalesced.thread_rank()] = v + __byte_perm(v, 3, 0x1234) + __funnelshift_l(v, v, 3) + __dp4a(v, 3, 4);
    __nanosleep(20);
    __threadfence();
}

__global__ void grids(int *out) {
    cg::this_grid().sync();
    out[cg::this_grid().thread_rank()] = 1;
}

__global__ void matrices(const __half *a, const __half *b, float *c, int n) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, __half, row_major> x;
    fragment<matrix_b, 16, 16, 16, __half, col_major> y;
    fragment<accumulator, 16, 16, 16, float> z;
    __shared__ __half tile[256];
    fill_fragment(z, 0.0f);
    load_matrix_sync(x, a, n);
    tile[threadIdx.x] = b[threadIdx.x];
    __syncthreads();
    load_matrix_sync(y, tile, 16);
    mma_sync(z, x, y, z);
    store_matrix_sync(c, z, n, mem_row_major);
}

__global__ void halves(__half *h, __nv_bfloat16 *b, __half2 *h2, const float *f) {
    int i = threadIdx.x;
    h[i] = __hfma(h[i], __float2half(f[i]), h[i + 1]);
    h2[i] = __hmul2(h2[i], __hadd2(h2[i + 1], h2[i + 2]));
    h[i + 32] = hexp(h[i]) + hsqrt(h[i]);
#if __CUDA_ARCH__ >= 800
    b[i] = __float2bfloat16(f[i]) * b[i + 1];
#endif
}

__global__ void vectors(float4 *a, const double2 *b, const int2 *c, char4 *d) {
    int i = threadIdx.x;
    float4 v = __ldg(a + i);
    double2 w = b[i];
    int2 x = __ldcs(c + i);
    v.x += w.x + x.y;
    __stwt(a + i, v);
    d[i] = make_char4(x.x, x.y, 1, 2);
}

#if __CUDA_ARCH__ >= 800
__global__ void copies(const float4 *in, float4 *out, int n) {
    __shared__ float4 tile[128];
    __pipeline_memcpy_async(&tile[threadIdx.x], in + threadIdx.x, 16);
    __pipeline_memcpy_async(&tile[threadIdx.x + 64], in + n, 16, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = tile[127 - threadIdx.x];
}

__global__ void barriers(int *data) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ barrier b;
    __shared__ int tile[256];
    if (threadIdx.x == 0) init(&b, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(tile + threadIdx.x, data + threadIdx.x, sizeof(int), b);
    b.arrive_and_wait();
    data[threadIdx.x] = tile[255 - threadIdx.x];
}

__global__ void ldmatrix(const int *in, int *out) {
    __shared__ int tile[256];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    unsigned address = __cvta_generic_to_shared(tile + threadIdx.x * 4);
    int a, b, c, d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(address));
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %1, 0;\n\t@p prefetch.global.L2 [%0];\n\t}" :: "l"(in), "r"(a));
    out[threadIdx.x] = a + b + c + d;
}
#endif

#if __CUDA_ARCH__ >= 900
__global__ void __cluster_dims__(2, 1, 1) clusters(int *out) {
    __shared__ int value;
    auto cluster = cg::this_cluster();
    value = threadIdx.x;
    cluster.sync();
    int *other = cluster.map_shared_rank(&value, cluster.block_rank() ^ 1);
    out[threadIdx.x] = *other;
    cluster.sync();
}

__global__ void bulk(const int *in, int *out) {
    __shared__ alignas(128) int tile[256];
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    if (threadIdx.x == 0) {
        init(&b, blockDim.x);
        cuda::device::memcpy_async_tx(tile, in, cuda::aligned_size_t<16>(sizeof(tile)), b);
    }
    __syncthreads();
    b.arrive_and_wait();
    out[threadIdx.x] = tile[threadIdx.x];
}
#endif
