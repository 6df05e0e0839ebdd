// bug: the first thread writes behind the end of a buffer, and an assertion of another warp fails behind a barrier
// expect: rule=global-out-of-bounds-write function=sum size=512
// expect: rule=kernel-failed kernel=_Z3sumPii error=710
#include "case.h"
#include "failed.h"
#undef NDEBUG
#include <cassert>

// The first thread is still in the kernel when the assertion ends it.
__global__ void sum(int *data, int at) {
    __shared__ int part[128];
    int i = threadIdx.x;
    part[i] = data[i];
    __syncthreads();
    if (i == 0) data[at] = 1;  // BUG
    __syncthreads();
    if (i == 100) assert(data[127] == 1);  // BUG
    __syncthreads();
    data[i] = part[i] + part[127 - i];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = upload(counting<int>(128));
    sum<<<1, 128>>>(data, 127 + bad);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorAssert);  // BUG
        return 0;
    }
    FINISH();
    print_digest("data", data, 128);
    CHECK(cudaFree(data));
}
