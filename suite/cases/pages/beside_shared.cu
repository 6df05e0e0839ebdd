// bug: a kernel writes beside a buffer that shares its memory with others
// run: protect=pages pages-budget=0
// expect: rule=canary-overwritten kernel=_Z4fillPiii argument=0 at=0 size=2048
#include "case.h"

__global__ void fill(int *out, int n, int value) {  // BUG
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = value;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int *> buffers;
    for (int i = 0; i < 8; i++) buffers.push_back(zeroed<int>(512));
    for (int i = 0; i < 8; i++) fill<<<1, 100>>>(buffers[i], 512 + (bad && i == 5), i + 1);
    FINISH();
    for (int *buffer : buffers) print_digest("buffer", buffer, 512);
    for (int *buffer : buffers) CHECK(cudaFree(buffer));
}
