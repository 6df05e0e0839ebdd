// bug: a pointer to a member function: the function runs past the object that it is called for
// expect: rule=local-out-of-bounds-write function=far size=32
#include "case.h"

struct Cells {
    int values[8];
    __device__ __noinline__ void near(int i) { values[i & 7] += i; }
    __device__ __noinline__ void far(int i) {
        values[i] -= i;  // BUG
    }
};

typedef void (Cells::*Member)(int);

__global__ void call(int *out, int which, int i) {
    Cells cells, others;
    for (int k = 0; k < 8; k++) cells.values[k] = others.values[k] = k;
    const Member member = which ? &Cells::near : &Cells::far;
    (cells.*member)(i);
    (others.*member)(i & 7);
    int sum = 0;
    for (int k = 0; k < 8; k++) sum += cells.values[k] * k - others.values[7 - k];
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    call<<<1, 32>>>(out, 0, bad ? 10 : 7);
    call<<<1, 32>>>(out, 1, 9);
    FINISH();
    print_digest("out", out, bad ? 0 : 32);
    CHECK(cudaFree(out));
}
