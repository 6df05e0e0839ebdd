// bug: a kernel reads bytes that were poisoned before it was launched, while others were still to read them
// run: protect=shadow shadow-encoding=128
// expect: rule=use-after-poison function=sum size=32768
#include "annotate.h"

__global__ void sum(const int *data, int n, int *out) {
    int mine = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) mine += data[i];  // BUG
    atomicAdd(out, mine);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = upload(counting<int>(8192)), *out = zeroed<int>(1);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaDeviceSynchronize());
    // These may come to the bytes after the host has poisoned them.
    for (int round = 0; round < 8; round++) sum<<<1, 64, 0, stream>>>(data, 8192, out);
    CHECK((cudaError_t)ringfence_poison(data + 4096, 4096 * sizeof(int)));
    sum<<<1, 64, 0, stream>>>(data, 4096, out);
    CHECK(cudaStreamSynchronize(stream));
    sum<<<1, 64, 0, stream>>>(data, 4096 + (bad ? 1 : 0), out);
    sum<<<1, 64, 0, stream>>>(data, bad ? 4224 : 4096, out);
    FINISH();
    if (!bad) print_digest("out", out, 1);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(data));
    CHECK(cudaFree(out));
}
