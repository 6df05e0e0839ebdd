// bug: a kernel that a kernel launches writes past the end of a buffer
// build: rdc
// expect: rule=global-out-of-bounds-write function=child size=160
#include "case.h"

__global__ void child(int *data, int count) {
    int i = threadIdx.x;
    if (i < count)
        data[i] = i * i;  // BUG
}

__global__ void parent(int *data, int count) {
    if (threadIdx.x == 0)
        child<<<1, 64>>>(data, count);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 40;
    int *data = zeroed<int>(n);
    parent<<<1, 32>>>(data, n + bad);
    FINISH();
    print_digest("data", data, n);
}
