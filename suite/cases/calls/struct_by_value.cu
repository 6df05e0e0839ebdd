// bug: a pointer goes to a function within a struct, and leads into another buffer
// expect: rule=global-out-of-bounds-write function=fill size=400
#include "case.h"

struct Span {
    int length;
    int *first;
};

__device__ __noinline__ void fill(Span span, int value) {
    for (int i = 0; i < span.length; i++) span.first[i] = value;  // BUG
}

__global__ void fill_part(int *data, long long start, int length) {
    Span span = {length, data + start};
    fill(span, threadIdx.x + 1);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = zeroed<int>(100);
    int *other = zeroed<int>(100);
    fill_part<<<1, 1>>>(data, bad ? other - data : 90, 10);
    FINISH();
    print_digest("other", other, 100);
    CHECK(cudaFree(data));
    CHECK(cudaFree(other));
}
