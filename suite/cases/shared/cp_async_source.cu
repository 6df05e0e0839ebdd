// bug: an asynchronous copy into shared memory reads past the end of its global buffer
// build: arch=80
// expect: rule=global-out-of-bounds-read function=stage size=504
#include "case.h"

__device__ __forceinline__ void copy_async(void *shared, const void *global, int bytes) {
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(bytes));  // BUG
}

// The last copy takes only the bytes that are there, the rest becomes zero.
__global__ void stage(const float *in, float *out, int count) {
    __shared__ __align__(16) float tile[128];
    int i = threadIdx.x;
    int left = count - 4 * i;
    copy_async(tile + 4 * i, in + 4 * i, (left < 4 ? left : 4) * 4);  // BUG
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;");
    __syncthreads();
    out[i] = tile[i] + tile[125 - i];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 126;
    float *in = upload(counting<float>(n));
    float *out = zeroed<float>(32);
    stage<<<1, 32>>>(in, out, bad ? n + 1 : n);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
