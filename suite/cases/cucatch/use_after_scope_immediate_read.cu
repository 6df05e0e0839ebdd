// bug: a pointer to a local array is used after its function returned: a read
// category: use-after-scope
// expect: rule=use-after-scope function=escape
#include "case.h"

// Leaves the address of its own array in `where`.
__device__ __noinline__ int keep(int **where, int seed, int pick) {
    int values[16];
    for (int i = 0; i < 16; i++) values[i] = seed * i;
    *where = values;
    return values[pick];
}

__global__ void escape(int *out, int use, int pick) {
    int *kept = nullptr;
    int value = keep(&kept, threadIdx.x, pick);
    if (use) {
        value = kept[pick];  // BUG
    }
    out[threadIdx.x] = value;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    escape<<<1, 32>>>(out, bad, 3);
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
