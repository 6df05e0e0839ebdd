// bug: a kernel reads through a pointer in memory to a buffer that was freed
// run: protect=shadow
// expect: rule=use-after-free function=gather size=256
#include "case.h"

__global__ void gather(int *const *rows, int *out, int count) {
    int i = threadIdx.x, sum = 0;
    for (int row = 0; row < count; row++) sum += rows[row][i];  // BUG
    out[i] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int *> rows;
    for (int row = 0; row < 6; row++) rows.push_back(upload(counting<int>(64)));
    int **table = upload(rows);
    int *out = zeroed<int>(64);
    if (bad) CHECK(cudaFree(rows[4]));
    gather<<<1, 64>>>(table, out, 6);
    FINISH();
    if (!bad) print_digest("out", out, 64);
    for (int row = 0; row < 6; row++)
        if (!bad || row != 4) CHECK(cudaFree(rows[row]));
    CHECK(cudaFree(table));
    CHECK(cudaFree(out));
}
