// bug: one past the end, by a kernel that runs after the device was reset
// expect: rule=global-out-of-bounds-write function=fill size=1000
#include "case.h"

__global__ void fill(int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = i;  // BUG
}

// The table is in memory, so that the device looks the pointer up.
__global__ void fill_row(int **table, int n) {
    int i = threadIdx.x;
    if (i < n) table[0][i] += i;
}

int main() {
    const int n = 250;
    for (int round = 0; round < 3; round++) {
        int *data = zeroed<int>(n);
        int **table = upload<int *>({data});
        fill<<<1, 256>>>(data, n + (bad && round == 2));
        fill_row<<<1, 256>>>(table, n);
        FINISH();
        print_digest("data", data, n);
        if (round < 2) CHECK(cudaDeviceReset());
    }
}
