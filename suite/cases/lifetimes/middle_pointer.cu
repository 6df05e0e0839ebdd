// bug: a pointer into the middle outlives its allocation
// expect: rule=use-after-free function=copy_tail size=4096
#include "case.h"

__global__ void copy_tail(const char *tail, char *out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tail[i];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    char *text = upload(counting<char>(4096));
    char *out = zeroed<char>(1096);
    const char *tail = text + 3000;
    if (bad) CHECK(cudaFree(text));
    copy_tail<<<1, 128>>>(tail, out, 1096);
    FINISH();
    if (!bad) print_digest("out", out, 1096);
    if (!bad) CHECK(cudaFree(text));
    CHECK(cudaFree(out));
}
