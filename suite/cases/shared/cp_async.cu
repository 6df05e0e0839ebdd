// bug: an asynchronous copy of 16 bytes starts in the last element of its shared tile
// build: arch=80
// expect: rule=shared-out-of-bounds-write function=stage size=512
#include "case.h"

__device__ __forceinline__ void copy_async(void *shared, const void *global) {
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global));  // BUG
}

__global__ void stage(const float *in, float *out, int shift) {
    __shared__ __align__(16) float tile[128];
    int i = threadIdx.x;
    copy_async(tile + 4 * (i + shift), in + 4 * i);  // BUG
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;");
    __syncthreads();
    out[i] = tile[i] + tile[127 - i];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *in = upload(counting<float>(128));
    float *out = zeroed<float>(32);
    stage<<<1, 32>>>(in, out, bad);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
