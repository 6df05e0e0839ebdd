// bug: a write through a pointer that was loaded from memory, before its buffer
// expect: rule=global-out-of-bounds-write function=clear_rows size=256
#include "case.h"

__global__ void clear_rows(int **rows, int first, int n) {
    int *row = rows[blockIdx.x];
    for (int i = first + static_cast<int>(threadIdx.x); i < n; i += blockDim.x)
        row[i] = static_cast<int>(blockIdx.x) + i;  // BUG
}

int main() {
    std::vector<int *> rows;
    for (int i = 0; i < 4; i++) rows.push_back(zeroed<int>(64));
    clear_rows<<<4, 16>>>(upload(rows), -bad, 64);
    FINISH();
    for (int *row : rows) print_digest("row", row, 64);
}
