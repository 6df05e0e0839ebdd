// bug: the fragments of an mma.m8n8k4, a product for each quarter of a warp, are stored four bytes too far
// category: global
// build: arch=75
// expect: rule=global-out-of-bounds-write function=product size=1024
#include "case.h"
#include <cuda_fp16.h>

__global__ void product(const unsigned *a, const unsigned *b, float *sums, int shift) {
    const int lane = threadIdx.x;
    float sum[8] = {};
    asm volatile(
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%11}, {%0,%1,%2,%3,%4,%5,%6,%7};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
          "+f"(sum[6]), "+f"(sum[7])
        : "r"(a[2 * lane]), "r"(a[2 * lane + 1]), "r"(b[2 * lane]), "r"(b[2 * lane + 1]));
    for (int i = 0; i < 8; i++) sums[8 * lane + i + shift] = sum[i];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<half> a(128), b(128);
    for (int i = 0; i < 128; i++) {
        a[i] = __float2half(static_cast<float>(i % 7 - 3));
        b[i] = __float2half(static_cast<float>(i % 5 - 2));
    }
    half *left = upload(a), *right = upload(b);
    float *sums = zeroed<float>(256);
    product<<<1, 32>>>(reinterpret_cast<unsigned *>(left), reinterpret_cast<unsigned *>(right),
                       sums, bad);
    FINISH();
    print_digest("sums", sums, 256);
    CHECK(cudaFree(sums));
    CHECK(cudaFree(right));
    CHECK(cudaFree(left));
}
