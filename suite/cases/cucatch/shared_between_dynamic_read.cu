// bug: dynamic shared memory is cut into two buffers, and the first is overrun into the second: a read
// category: shared-oob
// annotated
// expect: rule=intra-allocation-out-of-bounds-read function=fill size=128
#include "annotate.h"

template <bool annotated>
__global__ void fill(int *out, int offset, int count) {
    extern __shared__ int pool[];
    int *tile = part<annotated>(pool, count * sizeof(int));
    int *second = part<annotated>(pool + count, count * sizeof(int));
    int i = threadIdx.x;
    tile[i] = i * i;
    second[31 - i] = i;
    __syncthreads();
    out[i] = tile[i + offset];  // BUG
    __syncthreads();
    out[i] += second[i];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    auto kernel = is_annotated(argc, argv) ? fill<true> : fill<false>;
    kernel<<<1, 32, 64 * sizeof(int)>>>(out, bad ? 32 : 0, 32);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
