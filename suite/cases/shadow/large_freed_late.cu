// bug: a kernel reads a table that was freed thousands of allocations ago
// run: protect=shadow
// expect: rule=use-after-free function=gather size=9437184
#include "case.h"

__global__ void gather(const int *const *where, int *out) {
    out[threadIdx.x] = where[0][(9 << 18) - 1 - threadIdx.x];  // BUG
}

__global__ void touch(char *data, size_t bytes) {
    data[threadIdx.x] = data[bytes - 1 - threadIdx.x] = 1;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int *table = zeroed<int>(9 << 18);
    const int **where = upload(std::vector<const int *>{table});
    int *out = zeroed<int>(128);
    if (bad) CHECK(cudaFree((void *)table));
    // More memory than the quarantine keeps, and than many devices have.
    for (int round = 0; round < 2000; round++) {
        const size_t bytes = size_t(round % 7 + 1) << (round % 5 + 17);
        char *other = nullptr;
        CHECK(cudaMalloc(&other, bytes));
        if (round % 50 == 0) touch<<<1, 64>>>(other, bytes);
        CHECK(cudaFree(other));
    }
    gather<<<1, 128>>>(where, out);
    FINISH();
    if (!bad) {
        print_digest("out", out, 128);
        CHECK(cudaFree((void *)table));
    }
    CHECK(cudaFree(where));
    CHECK(cudaFree(out));
}
