// bug: a kernel reads through a pointer that it found in memory, one element past its buffer
// run: protect=auto
// expect: rule=global-out-of-bounds-read function=gather size=4096 live
#include "case.h"

__global__ void gather(const int *const *rows, int column, int *out) {
    out[threadIdx.x] = rows[threadIdx.x][column];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<const int *> pointers;
    for (int i = 0; i < 8; i++) pointers.push_back(upload(counting<int>(1024)));
    const int **rows = upload(pointers);
    int *out = zeroed<int>(8);
    gather<<<1, 8>>>(rows, 1023 + bad, out);
    FINISH();
    if (!bad) print_digest("out", out, 8);
    for (const int *row : pointers) CHECK(cudaFree((void *)row));
    CHECK(cudaFree(rows));
    CHECK(cudaFree(out));
}
