// bug: a matrix whose rows and columns are indexed from 1 is written behind its last row
// run: canary-head=off
// expect: rule=global-out-of-bounds-write function=scale size=2304
#include "case.h"

__global__ void scale(float *m, int rows, int columns) {
    int row = threadIdx.y + 1, column = threadIdx.x + 1;
    m[row * columns + column] *= 2;  // BUG
}

int main() {
    const int rows = 24, columns = 24;
    float *other = zeroed<float>(512);
    float *m = upload(counting<float>(rows * columns));
    scale<<<1, dim3(columns, rows + bad)>>>(m - columns - 1, rows, columns);
    FINISH();
    print_digest("m", m, rows * columns);
    CHECK(cudaFree(other));
    CHECK(cudaFree(m));
}
