// bug: a buffer was reallocated, but constant memory keeps the old pointer
// expect: rule=use-after-free function=scale size=1024
#include "case.h"

__constant__ float *weights;

__global__ void scale(float *data) {
    data[threadIdx.x] *= weights[threadIdx.x];  // BUG
}

float *install(int n) {
    float *buffer = upload(counting<float>(n));
    CHECK(cudaMemcpyToSymbol(weights, &buffer, sizeof buffer));
    return buffer;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *first = install(256);
    float *data = upload(counting<float>(256));
    scale<<<1, 256>>>(data);
    FINISH();
    CHECK(cudaFree(first));
    float *second = bad ? upload(counting<float>(512)) : install(512);
    scale<<<1, 256>>>(data);
    FINISH();
    if (!bad) print_digest("data", data, 256);
    CHECK(cudaFree(second));
    CHECK(cudaFree(data));
}
