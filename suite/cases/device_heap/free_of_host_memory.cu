// bug: a kernel frees memory that the host allocated
// expect: rule=invalid-free function=give_back size=256
#include "case.h"

__device__ __noinline__ void give_back(void *pointer) {
    free(pointer);  // BUG
}

__global__ void run(int *from_host, int *out, int wrong) {
    int *own = static_cast<int *>(malloc(256));
    if (!own) return;
    own[5] = 1;
    out[threadIdx.x] = own[5] + from_host[5];
    if (wrong) {
        if (threadIdx.x == 0) give_back(from_host);
        free(own);
    } else {
        give_back(own);
    }
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *from_host = zeroed<int>(64);
    int *out = zeroed<int>(4);
    run<<<1, 4>>>(from_host, out, bad);
    FINISH();
    print_digest("out", out, 4);
    CHECK(cudaFree(from_host));
    CHECK(cudaFree(out));
}
