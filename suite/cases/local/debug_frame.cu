// bug: built with -G: an array is overrun into its neighbour in the frame
// build: flags=-G
// expect: rule=local-out-of-bounds-write function=tally
#include "case.h"

__global__ void tally(const int *in, int *out, int n) {
    int counts[10];
    int order[10];
    for (int i = 0; i < 10; i++) {
        counts[i] = 0;
        order[i] = 9 - i;
    }
    for (int i = 0; i < n; i++)
        counts[in[i]] += 1;  // BUG
    out[threadIdx.x] = counts[order[threadIdx.x]];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int> host(50);
    for (int i = 0; i < 50; i++) host[i] = i * 3 % 10;
    host[31] = 9 + bad;
    int *in = upload(host);
    int *out = zeroed<int>(10);
    tally<<<1, 10>>>(in, out, 50);
    FINISH();
    print_digest("out", out, 10);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
