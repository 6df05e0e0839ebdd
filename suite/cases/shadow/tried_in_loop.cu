// bug: a sparse row's last column is one too large, in a loop whose loads are made together
// run: protect=shadow prove=off
// expect: rule=global-out-of-bounds-read function=product size=4096
#include "case.h"

__global__ void product(const int *starts, const int *columns, const float *values, const float *x, float *y, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
#pragma unroll 4
    for (int k = starts[row]; k < starts[row + 1]; k++) sum += values[k] * x[columns[k]];  // BUG
    y[row] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int rows = 64, each = 32, n = 1024;
    std::vector<int> starts(rows + 1), columns(rows * each);
    for (int row = 0; row <= rows; row++) starts[row] = row * each;
    for (int k = 0; k < rows * each; k++) columns[k] = (k * 37) % n;
    columns[17 * each + 30] = n - 1 + bad;
    int *where = upload(starts), *of = upload(columns);
    float *values = upload(counting<float>(rows * each)), *x = upload(counting<float>(n)), *y = zeroed<float>(rows);
    product<<<1, rows>>>(where, of, values, x, y, rows);
    FINISH();
    if (!bad) print_digest("y", y, rows);
}
