// bug: a kernel reads a block that went back to its caching allocator
// annotated
// expect: rule=use-after-free function=sum size=512
#include "caching.h"

__global__ void sum(const int *in, int *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] += in[i];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    CachingAllocator cache(is_annotated(argc, argv));
    int *in = static_cast<int *>(cache.take(512));
    CHECK(cudaMemset(in, 1, 512));
    int *out = zeroed<int>(128);
    if (bad) cache.give(in);
    sum<<<1, 128>>>(in, out, 128);
    FINISH();
    if (!bad) cache.give(in);
    print_digest("out", out, 128);
    CHECK(cudaFree(out));
}
