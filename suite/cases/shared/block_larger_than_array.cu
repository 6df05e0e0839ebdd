// bug: a reduction is launched with more threads than its shared array has elements
// expect: rule=shared-out-of-bounds-write function=reduce size=512
#include "case.h"

__global__ void reduce(const int *in, int *out) {
    __shared__ int partial[128];
    int i = threadIdx.x;
    partial[i] = in[i];  // BUG
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (i < step) partial[i] += partial[i + step];
        __syncthreads();
    }
    if (i == 0) *out = partial[0];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *in = upload(counting<int>(160));
    int *out = zeroed<int>(1);
    reduce<<<1, bad ? 160 : 128>>>(in, out);
    FINISH();
    print_digest("out", out, 1);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
