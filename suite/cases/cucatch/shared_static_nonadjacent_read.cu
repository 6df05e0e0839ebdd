// bug: an index jumps from one static shared array over the next into a third: a read
// category: shared-oob
// expect: rule=shared-out-of-bounds-read function=fill size=128
#include "case.h"

__global__ void fill(int *out, int offset) {
    __shared__ int tile[32], second[32], third[32];
    int i = threadIdx.x;
    tile[i] = i * i;
    second[31 - i] = i;
    third[i ^ 1] = i + 7;
    __syncthreads();
    out[i] = tile[i + offset];  // BUG
    __syncthreads();
    out[i] += second[i] * third[i];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    fill<<<1, 32>>>(out, bad ? 70 : 0);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
