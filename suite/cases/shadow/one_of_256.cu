// bug: a kernel reads the byte after a buffer of one byte more than a block
// run: protect=shadow
// expect: rule=global-out-of-bounds-read function=count size=257
#include "case.h"

__global__ void count(const unsigned char *text, int n, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && text[i]) atomicAdd(out, 1);  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    unsigned char *text = upload(std::vector<unsigned char>(257, 'x'));
    int *out = zeroed<int>(1);
    count<<<5, 64>>>(text, 257 + bad, out);
    FINISH();
    if (!bad) print_digest("out", out, 1);
    CHECK(cudaFree(text));
    CHECK(cudaFree(out));
}
