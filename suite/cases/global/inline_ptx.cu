// bug: a load written as inline PTX
// expect: rule=global-out-of-bounds-read function=streaming_copy size=2048
#include "case.h"

__device__ __forceinline__ ulonglong2 load_streaming(const void *p) {
    ulonglong2 v;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(p));  // BUG
    return v;
}

__global__ void streaming_copy(const ulonglong2 *in, ulonglong2 *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = load_streaming(in + i);
}

int main() {
    const int n = 128;
    std::vector<unsigned long long> values = counting<unsigned long long>(n * 2);
    ulonglong2 *in = reinterpret_cast<ulonglong2 *>(upload(values));
    ulonglong2 *out = zeroed<ulonglong2>(n + 1);
    streaming_copy<<<1, 160>>>(in, out, n + bad);
    FINISH();
    print_digest("out", out, n);
}
