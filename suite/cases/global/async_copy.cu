// bug: an asynchronous copy to shared memory reads behind its source
// build: arch=90
// expect: rule=global-out-of-bounds-read function=staged size=4080
#include "case.h"

__global__ void staged(const int4 *in, int4 *out, int n) {
    __shared__ int4 tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&tile[threadIdx.x]));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + i) : "memory");  // BUG
    }
    asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    if (i < n) out[i] = tile[threadIdx.x];
}

int main() {
    const int n = 255;
    int4 *in = reinterpret_cast<int4 *>(upload(counting<int>(n * 4)));
    int4 *out = zeroed<int4>(n + 1);
    staged<<<4, 64>>>(in, out, n + bad);
    FINISH();
    print_digest("out", out, n);
}
