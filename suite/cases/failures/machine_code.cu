// bug: a kernel of which there is only machine code reads through a wild pointer
// build: arch=90 machine-code
// expect: rule=kernel-failed kernel=_Z4copyPKPKiPi error=700
#include "failed.h"

__global__ void copy(const int *const *from, int *to) { to[threadIdx.x] = from[threadIdx.x][0]; }  // BUG

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *row = upload(counting<int>(32));
    std::vector<const int *> pointers(32, row + 31);
    if (bad) pointers[31] = nullptr;
    const int **from = upload(pointers);
    int *to = zeroed<int>(32);
    copy<<<1, 32>>>(from, to);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    print_digest("to", to, 32);
    CHECK(cudaFree(row));
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
}
