// bug: a function adds a word to a pointer and returns what lies in another buffer
// expect: rule=global-out-of-bounds-write function=clear size=256
#include "case.h"

__device__ __noinline__ int *moved(int *place, long long by) { return place + by; }

__global__ void clear(int *data, long long index, int n) {
    int *place = moved(data, index);
    for (int i = 0; i < n; i++) place[i] = 0;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = zeroed<int>(64);
    int *other = upload(std::vector<int>(64, 3));
    clear<<<1, 1>>>(data, bad ? other - data : 56, 8);
    FINISH();
    print_digest("data", data, 64);
    print_digest("other", other, 64);
    CHECK(cudaFree(data));
    CHECK(cudaFree(other));
}
