// bug: a pointer to the middle of a buffer is used with the whole length
// expect: rule=global-out-of-bounds-write function=second_half size=800
#include "case.h"

__global__ void second_half(int *from_middle, int n) {
    int i = threadIdx.x;
    if (i < n)
        from_middle[i] = i;  // BUG
}

int main() {
    const int n = 200;
    int *data = zeroed<int>(n);
    second_half<<<1, 128>>>(data + n / 2, n / 2 + bad);
    FINISH();
    print_digest("data", data, n);
}
