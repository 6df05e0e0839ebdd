// bug: one of the pointers in a table on the device is to memory that was freed
// expect: rule=use-after-free function=sum_rows size=256
#include "case.h"

__global__ void sum_rows(int *const *rows, int *out, int count, int n) {
    int i = threadIdx.x;
    int sum = 0;
    for (int row = 0; row < count; row++)
        if (i < n) sum += rows[row][i];  // BUG
    out[i] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int *> rows;
    for (int row = 0; row < 6; row++) rows.push_back(upload(counting<int>(64)));
    int **table = upload(rows);
    int *out = zeroed<int>(64);
    if (bad) CHECK(cudaFree(rows[4]));
    sum_rows<<<1, 64>>>(table, out, 6, 64);
    FINISH();
    if (!bad) print_digest("out", out, 64);
    for (int row = 0; row < 6; row++)
        if (!bad || row != 4) CHECK(cudaFree(rows[row]));
    CHECK(cudaFree(table));
    CHECK(cudaFree(out));
}
