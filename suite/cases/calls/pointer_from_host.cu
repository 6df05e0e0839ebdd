// bug: a function whose address the host read and passed gets a pointer that lies in another buffer
// expect: rule=global-out-of-bounds-write function=fill size=1000
#include "case.h"

typedef void (*Fill)(int *place, int n);

__device__ void fill(int *place, int n) {
    for (int i = 0; i < n; i++) place[i] = i;  // BUG
}

__device__ void clear(int *place, int n) {
    for (int i = 0; i < n; i++) place[i] = 0;
}

__device__ Fill fill_pointer = fill;
__device__ Fill clear_pointer = clear;

__global__ void at(Fill function, int *data, long long index, int n) { function(data + index, n); }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *first = zeroed<int>(250);
    int *second = zeroed<int>(500);
    Fill fill_it, clear_it;
    CHECK(cudaMemcpyFromSymbol(&fill_it, fill_pointer, sizeof fill_it));
    CHECK(cudaMemcpyFromSymbol(&clear_it, clear_pointer, sizeof clear_it));
    at<<<1, 1>>>(clear_it, second, 0, 500);
    at<<<1, 1>>>(fill_it, first, bad ? second - first : 246, 4);
    FINISH();
    print_digest("second", second, 500);
    CHECK(cudaFree(first));
    CHECK(cudaFree(second));
}
