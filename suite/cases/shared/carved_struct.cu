// bug: keys and values are cut from dynamic shared memory, and the keys run into the values
// annotated
// expect: rule=intra-allocation-out-of-bounds-write function=sort_block size=256
#include "annotate.h"

// Odd-even sort of a block's pairs.
template <bool annotated>
__global__ void sort_block(const int *in, int *out, int n, int write_to) {
    extern __shared__ unsigned char memory[];
    int *keys = part<annotated>(reinterpret_cast<int *>(memory), n * sizeof(int));
    short *values = part<annotated>(reinterpret_cast<short *>(memory + n * sizeof(int)), n * sizeof(short));
    int i = threadIdx.x;
    if (i < write_to) keys[i] = in[i % n];  // BUG
    if (i < n) values[i] = i;
    __syncthreads();
    for (int round = 0; round < n; round++) {
        int a = 2 * i + (round & 1);
        if (a + 1 < n && keys[a] > keys[a + 1]) {
            int key = keys[a];
            keys[a] = keys[a + 1];
            keys[a + 1] = key;
            short value = values[a];
            values[a] = values[a + 1];
            values[a + 1] = value;
        }
        __syncthreads();
    }
    if (i < n) out[i] = keys[i] * 100 + values[i];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 64;
    std::vector<int> host(n);
    for (int i = 0; i < n; i++) host[i] = i * 37 % n;
    int *in = upload(host);
    int *out = zeroed<int>(n);
    auto kernel = is_annotated(argc, argv) ? sort_block<true> : sort_block<false>;
    kernel<<<1, 96, n * (sizeof(int) + sizeof(short))>>>(in, out, n, n + bad);
    FINISH();
    if (!bad) print_digest("out", out, n);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
