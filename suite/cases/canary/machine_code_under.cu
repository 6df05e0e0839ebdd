// bug: machine code writes before a buffer that it finds in memory, in a stream of its own
// build: arch=90 machine-code
// expect: rule=canary-overwritten kernel=_Z5writePPii at=-61 size=256
#include "case.h"

__global__ void write(int **table, int offset) { table[0][offset] = 7; }  // BUG

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int *> table{zeroed<int>(64)};
    int **device = upload(table);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    write<<<1, 1, 0, stream>>>(device, bad ? -16 : 16);
    CHECK(cudaStreamSynchronize(stream));
    print_digest("row", table[0], 64);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(table[0]));
    CHECK(cudaFree(device));
}
