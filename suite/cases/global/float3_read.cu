// bug: a twelve-byte element straddles the end of its buffer
// expect: rule=global-out-of-bounds-read function=norms size=1196
#include "case.h"

__global__ void norms(const float3 *points, float *out, int n) {
    int i = threadIdx.x;
    if (i < n) {
        float3 p = points[i];  // BUG
        out[i] = p.x * p.x + p.y * p.y + p.z * p.z;
    }
}

int main() {
    const int n = 100;
    // One float short of a hundred points.
    float *points = upload(counting<float>(n * 3 - 1));
    float *out = zeroed<float>(n);
    norms<<<1, 128>>>(reinterpret_cast<float3 *>(points), out, n - 1 + bad);
    FINISH();
    print_digest("out", out, n - 1);
}
