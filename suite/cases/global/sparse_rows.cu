// bug: a CSR matrix has a column index that is one too large
// expect: rule=global-out-of-bounds-read function=spmv size=160
#include "case.h"

__global__ void spmv(const int *offsets, const int *columns, const float *values, const float *x,
                     float *y, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int k = offsets[row]; k < offsets[row + 1]; k++)
        sum += values[k] * x[columns[k]];  // BUG
    y[row] = sum;
}

int main() {
    const int rows = 40, each = 5;
    std::vector<int> offsets(rows + 1), columns(rows * each);
    for (int i = 0; i <= rows; i++) offsets[i] = i * each;
    for (int k = 0; k < rows * each; k++) columns[k] = (k * 7) % rows;
    columns[rows * each - 1] = rows - 1 + bad;
    float *y = zeroed<float>(rows);
    spmv<<<2, 32>>>(upload(offsets), upload(columns), upload(counting<float>(rows * each)),
                    upload(counting<float>(rows)), y, rows);
    FINISH();
    print_digest("y", y, rows - 1);
}
