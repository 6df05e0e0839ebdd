// bug: 16 bytes are copied at once from rows that are aligned to 4 only
// build: arch=80
// expect: rule=misaligned-access function=stage size=4224
#include "case.h"

__global__ void stage(const float *rows, float *out, int columns) {
    __shared__ __align__(16) float tile[32 * 32];
    for (int i = 0; i < 8; ++i) {
        unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&tile[32 * threadIdx.x + 4 * i]));
        const float *from = rows + columns * threadIdx.x + 4 * i;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");  // BUG
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 32; ++i) sum += tile[32 * i + threadIdx.x];
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    float *rows = upload(counting<float>(32 * 33));
    float *out = zeroed<float>(32);
    stage<<<1, 32>>>(rows, out, is_bad(argc, argv) ? 33 : 32);
    FINISH();
    print_digest("out", out, 32);
}
