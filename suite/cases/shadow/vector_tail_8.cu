// bug: of the last vector of a buffer, the second of its blocks of 8 bytes is past the end
// run: protect=shadow prove=off shadow-encoding=8 shadow-loads=always
// expect: rule=global-out-of-bounds-read function=sum size=488
#include "case.h"

__global__ void sum(const float4 *in, float *out, int n) {
    int i = threadIdx.x;
    if (i < n) {
        float4 v = in[i];  // BUG
        out[i] = v.x + v.y + v.z + v.w;
    }
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    float *in = upload(counting<float>(122)), *out = zeroed<float>(32);
    sum<<<1, 32>>>((const float4 *)in, out, 30 + bad);
    FINISH();
    if (!bad) print_digest("out", out, 32);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
