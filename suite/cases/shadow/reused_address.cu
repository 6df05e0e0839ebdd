// bug: a kernel writes to a buffer that was freed, after many others came and went
// run: protect=shadow shadow-encoding=128
// expect: rule=use-after-free function=mark
#include "case.h"

__global__ void mark(int *const *where) {
    where[0][threadIdx.x] = threadIdx.x;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *first = zeroed<int>(32);
    int **where = upload(std::vector<int *>{first});
    if (bad) CHECK(cudaFree(first));
    // Whatever gets their addresses can be used again.
    for (int round = 0; round < 50; round++) {
        int *more = zeroed<int>(100 + 40 * round);
        int **there = upload(std::vector<int *>{more});
        mark<<<1, 32>>>(there);
        CHECK(cudaFree(more));
        CHECK(cudaFree(there));
    }
    mark<<<1, 32>>>(where);
    FINISH();
    if (!bad) {
        print_digest("first", first, 32);
        CHECK(cudaFree(first));
    }
    CHECK(cudaFree(where));
}
