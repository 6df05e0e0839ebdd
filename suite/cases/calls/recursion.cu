// bug: a recursion over a table goes on behind its end, in another buffer
// expect: rule=global-out-of-bounds-read function=total size=256
#include "case.h"

__device__ __noinline__ int total(const int *values, int n) {
    if (n == 1) return *values;  // BUG
    return total(values, n / 2) + total(values + n / 2, n - n / 2);
}

__global__ void totals(const int *values, long long start, int *out, int n) {
    *out = total(values + start, n);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *values = upload(std::vector<int>(64, 3));
    int *others = upload(std::vector<int>(64, 5));
    int *out = zeroed<int>(1);
    totals<<<1, 1>>>(values, bad ? others - values : 32, out, 32);
    FINISH();
    print_digest("out", out, bad ? 0 : 1);
    CHECK(cudaFree(values));
    CHECK(cudaFree(others));
    CHECK(cudaFree(out));
}
