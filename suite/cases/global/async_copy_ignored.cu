// bug: an asynchronous copy that may ignore its source reads past the buffer's end where it does not
// build: arch=90
// expect: rule=global-out-of-bounds-read function=staged size=1600
#include "case.h"

// Copies 16 bytes to shared memory, or zeros if `ignored`: then the source may
// be anything.
__device__ void copy(int4 *to, const int4 *from, bool ignored) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile(
        "{ .reg .pred p; setp.ne.s32 p, %2, 0;\n"
        "  cp.async.cg.shared.global [%0], [%1], 16, p; }" ::"r"(address),
        "l"(from), "r"(static_cast<int>(ignored))
        : "memory");
}

// The same, written with a negated predicate and a cache policy.
__device__ void copy_with_policy(int4 *to, const int4 *from, bool ignored) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile(
        "{ .reg .pred p; .reg .b64 policy; setp.eq.s32 p, %2, 0;\n"
        "  createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
        "  cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, !p, policy; }" ::"r"(address),
        "l"(from), "r"(static_cast<int>(ignored))
        : "memory");
}

__global__ void staged(const int4 *in, int4 *out, int n) {
    __shared__ int4 tile[64], other[64];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int4 *far = in + i + (i < n ? 0 : 1ll << 36);
    copy(&tile[threadIdx.x], far, i >= n);                // BUG
    copy_with_policy(&other[threadIdx.x], far, i >= n);  // BUG
    asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    const int4 a = tile[threadIdx.x], b = other[threadIdx.x];
    out[i] = int4{a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

int main() {
    const int n = 100;
    int4 *in = reinterpret_cast<int4 *>(upload(counting<int>(n * 4)));
    int4 *out = zeroed<int4>(128);
    staged<<<2, 64>>>(in, out, n + bad);
    FINISH();
    print_digest("out", out, n);
}
