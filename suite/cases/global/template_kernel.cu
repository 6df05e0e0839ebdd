// bug: one instance of a template is launched with another's element count
// expect: rule=global-out-of-bounds-write function=transform size=300
#include "case.h"

struct Negate {
    template <typename T>
    __device__ T operator()(T value) const { return -value; }
};

template <typename T, typename Op, int Unroll>
__global__ void transform(T *data, int n, Op op) {
    int start = (blockIdx.x * blockDim.x + threadIdx.x) * Unroll;
#pragma unroll
    for (int k = 0; k < Unroll; k++) {
        if (start + k < n)
            data[start + k] = op(static_cast<T>(start + k));  // BUG
    }
}

int main() {
    const int n = 150;
    short *shorts = zeroed<short>(n);
    double *doubles = zeroed<double>(n);
    transform<double, Negate, 2><<<1, 96>>>(doubles, n, Negate());
    transform<short, Negate, 4><<<1, 96>>>(shorts, n + bad * 2, Negate());
    FINISH();
    print_digest("shorts", shorts, n);
    print_digest("doubles", doubles, n);
}
