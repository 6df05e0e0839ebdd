// bug: a pointer to constant memory goes to a function that does not know its length
// expect: rule=constant-out-of-bounds-read function=lookup size=40
#include "case.h"

__constant__ int squares[10] = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81};

__device__ __noinline__ int lookup(const int *table, int i) {
    return table[i];  // BUG
}

__global__ void apply(const int *in, int *out) {
    out[threadIdx.x] = lookup(squares, in[threadIdx.x]);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int> host(32);
    for (int i = 0; i < 32; i++) host[i] = i % 10;
    host[7] = bad ? 10 : 9;
    int *in = upload(host);
    int *out = zeroed<int>(32);
    apply<<<1, 32>>>(in, out);
    FINISH();
    print_digest("out", out, 7);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
