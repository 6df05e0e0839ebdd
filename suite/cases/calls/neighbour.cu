// bug: a pointer that lies in another buffer already goes to a function
// expect: rule=global-out-of-bounds-write function=clear size=1000
#include "case.h"

__device__ __noinline__ void clear(int *place, int n) {
    for (int i = 0; i < n; i++) place[i] = 0;  // BUG
}

__global__ void clear_at(int *data, long long index, int n) { clear(data + index, n); }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *first = zeroed<int>(250);
    int *second = zeroed<int>(500);
    // What the function gets is a good pointer into `second`.
    long long index = bad ? second - first : 246;
    clear_at<<<1, 1>>>(first, index, 4);
    FINISH();
    print_digest("second", second, 500);
    CHECK(cudaFree(first));
    CHECK(cudaFree(second));
}
