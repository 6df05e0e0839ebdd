// bug: the first thread's left neighbour lies before the buffer
// expect: rule=global-out-of-bounds-read function=left_neighbour size=1024
#include "case.h"

__global__ void left_neighbour(const float *in, float *out, int n, int first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= first && i < n)
        out[i] = in[i - 1] + 1.0f;  // BUG
}

int main() {
    const int n = 256;
    float *in = upload(counting<float>(n));
    float *out = zeroed<float>(n);
    left_neighbour<<<2, 128>>>(in, out, n, 1 - bad);
    FINISH();
    print_digest("out", out + 1, n - 1);
}
