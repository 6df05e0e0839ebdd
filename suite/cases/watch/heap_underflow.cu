// bug: one thread of many writes before what malloc gave it, which it keeps
// run: protect=watch
// expect: rule=canary-overwritten kernel=fill at=-1 size=100
#include "case.h"

extern "C" __global__ void fill(char **kept, int bad) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    char *text = static_cast<char *>(malloc(100));
    if (!text) return;
    kept[thread] = text;
    for (int i = 0; i < 100; i++) text[i] = 'a' + i % 26;
    text[thread == 77 ? -bad : 0]++;
}

extern "C" __global__ void drop(char **kept, int *out) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    out[thread] = kept[thread][99] - kept[thread][0];
    free(kept[thread]);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    char **kept = zeroed<char *>(128);
    int *out = zeroed<int>(128);
    fill<<<2, 64>>>(kept, bad);  // BUG
    FINISH();
    drop<<<2, 64>>>(kept, out);
    FINISH();
    print_digest("out", out, 128);
    CHECK(cudaFree(kept));
    CHECK(cudaFree(out));
}
