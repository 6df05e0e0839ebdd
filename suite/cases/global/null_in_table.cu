// bug: a pointer table has a null entry that is dereferenced
// expect: rule=invalid-pointer function=first_of_each
#include "case.h"

__global__ void first_of_each(int **rows, int *out, int n) {
    int i = threadIdx.x;
    if (i < n)
        out[i] = rows[i][0];  // BUG
}

int main() {
    const int n = 6;
    std::vector<int *> rows;
    for (int i = 0; i < n; i++) rows.push_back(upload(counting<int>(1)));
    // The good twin has the null entry too, and does not reach it.
    rows.push_back(nullptr);
    int *out = zeroed<int>(n + 1);
    first_of_each<<<1, 32>>>(upload(rows), out, n + bad);
    FINISH();
    print_digest("out", out, n);
}
