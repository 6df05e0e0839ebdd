// bug: metadata of a sparse product (mma.sp) are read for one warp too many
// category: global
// build: arch=80
// expect: rule=global-out-of-bounds-read function=product size=128
#include "case.h"

#define SPARSE(op, a0, a1, b0, b1, selector)                                                      \
    asm volatile("mma.sp::ordered_metadata.sync.aligned." op                                      \
                 " {%0,%1,%2,%3}, {%4,%5}, {%6,%7}, {%0,%1,%2,%3}, %8, " #selector ";"            \
                 : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])                         \
                 : "r"(a0), "r"(a1), "r"(b0), "r"(b1), "r"(meta))

__global__ void product(const unsigned *metadata, unsigned *sums, int lanes) {
    const int lane = threadIdx.x;
    if (lane >= lanes) return;
    const unsigned meta = metadata[lane];  // BUG
    unsigned sum[4] = {};
    // Small whole numbers of f16, so that sums are exact on every device.
    const unsigned ones = 0x3c003c00, mixed = lane & 1 ? 0x40003c00 : 0xc0004200;
    SPARSE("m16n8k16.row.col.f32.f16.f16.f32", mixed, ones, mixed, ones, 1);
    for (int i = 0; i < 4; i++) sums[8 * lane + i] = sum[i], sum[i] = 0;
    SPARSE("m16n8k32.row.col.s32.s8.s8.s32", 0x01020304 * (lane % 5), 0x05060708, 0x01ff02fe,
           0x7f010203 + lane, 1);
    for (int i = 0; i < 4; i++) sums[8 * lane + 4 + i] = sum[i];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    // Two of four places, in order.
    const unsigned pairs[] = {0x4, 0x8, 0xc, 0x9, 0xd, 0xe};
    std::vector<unsigned> metadata(32);
    for (int i = 0; i < 32; i++) {
        for (int group = 0; group < 8; group++) {
            metadata[i] |= pairs[(5 * i + 7 * group) % 6] << (4 * group);
        }
    }
    unsigned *from = upload(metadata), *sums = zeroed<unsigned>(512);
    product<<<1, 64>>>(from, sums, bad ? 64 : 32);
    FINISH();
    print_digest("sums", sums, 256);
    CHECK(cudaFree(sums));
    CHECK(cudaFree(from));
}
