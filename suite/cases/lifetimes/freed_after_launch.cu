// bug: a kernel reads past its buffer, which is freed right after the launch
// expect: rule=global-out-of-bounds-read function=sum size=400 live
#include "case.h"

__global__ void sum(const int *data, int n, int *out) {
    int total = 0;
    for (int i = 0; i < n; i++) total += data[i];  // BUG
    *out = total;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = upload(counting<int>(100)), *out = zeroed<int>(1);
    sum<<<1, 1>>>(data, 100 + bad, out);
    CHECK(cudaFree(data));
    FINISH();
    if (!bad) print_digest("out", out, 1);
    CHECK(cudaFree(out));
}
