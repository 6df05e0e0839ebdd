// bug: the faulty kernel is launched by cudaLaunchKernel with an argument array
// expect: rule=global-out-of-bounds-read function=stretch size=1000
#include "case.h"

__global__ void stretch(const char *in, double scale, double *out, short n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] * scale;  // BUG
}

int main() {
    short n = 1000 + bad;
    char *in = upload(counting<char>(1000));
    double *out = zeroed<double>(1001);
    double scale = 1.5;
    // Arguments of mixed sizes: offsets in the parameter block have gaps.
    void *arguments[] = {&in, &scale, &out, &n};
    CHECK(cudaLaunchKernel(reinterpret_cast<const void *>(stretch), dim3(8), dim3(128), arguments,
                           0, nullptr));
    FINISH();
    print_digest("out", out, 1000);
}
