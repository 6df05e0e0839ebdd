// bug: a kernel writes into the padding between two arrays of one buffer, which the program has poisoned
// run: protect=shadow
// expect: rule=use-after-poison function=fill size=65536
#include "annotate.h"

__global__ void fill(int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    char *arena = zeroed<char>(1 << 16);
    int *first = reinterpret_cast<int *>(arena), *second = reinterpret_cast<int *>(arena + 8192);
    CHECK(cudaDeviceSynchronize());
    // Of the first array, 1001 elements are used.
    CHECK((cudaError_t)ringfence_poison(arena + 4004, 8192 - 4004));
    fill<<<4, 256>>>(first, bad ? 1002 : 1001);
    fill<<<8, 256>>>(second, 2048);
    FINISH();
    // All of it is used again.
    CHECK((cudaError_t)ringfence_unpoison(arena, 1 << 16));
    fill<<<8, 256>>>(first, bad ? 1001 : 2048);
    FINISH();
    if (!bad) print_digest("first", first, 4096);
    CHECK(cudaFree(arena));
}
