// bug: rows have different lengths and one is read with another's
// expect: rule=global-out-of-bounds-read function=row_sums size=20
#include "case.h"

__global__ void row_sums(const int *const *rows, const int *lengths, int *sums, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    const int *row = rows[i];
    int sum = 0;
    for (int k = 0; k < lengths[i]; k++)
        sum += row[k];  // BUG
    sums[i] = sum;
}

int main() {
    const int n = 8;
    std::vector<const int *> rows;
    std::vector<int> lengths;
    for (int i = 0; i < n; i++) {
        rows.push_back(upload(counting<int>(i + 1)));
        lengths.push_back(i + 1);
    }
    lengths[4] += bad;
    int *sums = zeroed<int>(n);
    row_sums<<<1, 32>>>(upload(rows), upload(lengths), sums, n);
    FINISH();
    print_digest("sums", sums, 4);
}
