// bug: the host passes a pointer into the middle of an element
// expect: rule=misaligned-access function=scale size=4100
#include "case.h"

__global__ void scale(float *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] *= 2;  // BUG
}

int main(int argc, char **argv) {
    const int n = 1024;
    float *data = upload(counting<float>(n + 1));
    char *start = reinterpret_cast<char *>(data) + (is_bad(argc, argv) ? 2 : 4);
    scale<<<n / 128, 128>>>(reinterpret_cast<float *>(start), n);
    FINISH();
    print_digest("data", data, n + 1);
}
