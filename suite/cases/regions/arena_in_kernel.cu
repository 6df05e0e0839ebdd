// bug: kernels take blocks from an arena by an atomic counter, and one writes past its block
// annotated
// expect: rule=intra-allocation-out-of-bounds-write function=build size=32
#include "annotate.h"

template <bool annotated>
__device__ int *take(int *arena, unsigned *used, unsigned count) {
    unsigned start = atomicAdd(used, count);
    return part<annotated>(arena + start, count * sizeof(int));
}

template <bool annotated>
__global__ void build(int *arena, unsigned *used, int **lists, int long_one) {
    int *list = take<annotated>(arena, used, 8);
    int n = threadIdx.x == long_one ? 9 : 8;
    for (int i = 0; i < n; i++) list[i] = threadIdx.x * 100 + i;  // BUG
    lists[threadIdx.x] = list;
}

__global__ void sums(int **lists, int *out) {
    int sum = 0;
    for (int i = 0; i < 8; i++) sum += lists[threadIdx.x][i];
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *arena = zeroed<int>(16 * 8 + 8);
    unsigned *used = zeroed<unsigned>(1);
    int **lists = zeroed<int *>(16);
    int *out = zeroed<int>(16);
    auto kernel = is_annotated(argc, argv) ? build<true> : build<false>;
    kernel<<<1, 16>>>(arena, used, lists, bad ? 5 : -1);
    sums<<<1, 16>>>(lists, out);
    FINISH();
    if (!bad) print_digest("out", out, 16);
    CHECK(cudaFree(arena));
    CHECK(cudaFree(used));
    CHECK(cudaFree(lists));
    CHECK(cudaFree(out));
}
