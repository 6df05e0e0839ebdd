// bug: a kernel traps, and what was put into the stream behind it never runs
// run: leak-check=full
// expect: rule=kernel-failed kernel=_Z5checkPKii error=719
#include "failed.h"

__global__ void check(const int *data, int most) {
    if (data[threadIdx.x] > most) __trap();  // BUG
}

__global__ void add(int *data, int n) {
    if (threadIdx.x < n) data[threadIdx.x] += 1;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = upload(counting<int>(64)), *other = zeroed<int>(64);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    check<<<1, 64, 0, stream>>>(data, 63 - bad);  // BUG
    // The program sees no error, and does not ask: some of these may be refused.
    for (int i = 0; i < 20; i++) add<<<1, 64, 0, stream>>>(other, 64);  // BUG
    cudaError_t seen;
    while ((seen = cudaStreamQuery(stream)) == cudaErrorNotReady) {  // BUG
    }
    if (bad != (seen == cudaErrorLaunchFailure)) return 1;
    // What cannot be freed any more is no leak.
    const cudaError_t freed = cudaFree(data);
    if (bad != (freed == cudaErrorLaunchFailure)) return 1;
    if (bad) return 0;
    print_digest("other", other, 64);
    CHECK(cudaFree(other));
    CHECK(cudaStreamDestroy(stream));
}
