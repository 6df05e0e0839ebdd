// bug: a pointer that was taken apart and put together again reaches past its buffer
// run: protect=shadow
// expect: rule=global-out-of-bounds-read function=follow size=1024
#include "case.h"

__global__ void hide(const int *in, unsigned long long *key, unsigned long long secret) {
    key[0] = (unsigned long long)in ^ secret;
    key[1] = (unsigned long long)key ^ (secret << 1);
}

__global__ void follow(const unsigned long long *key, unsigned long long secret, int *out, int n) {
    const int *in = (const int *)(key[0] ^ secret);
    int i = threadIdx.x;
    if (i < n) out[i % 256] = in[i] + 1;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *in = upload(counting<int>(256)), *out = zeroed<int>(256);
    unsigned long long *key = zeroed<unsigned long long>(2);
    hide<<<1, 1>>>(in, key, 0x5a5a5a5a5a5aull);
    follow<<<1, 288>>>(key, 0x5a5a5a5a5a5aull, out, 256 + bad);
    FINISH();
    if (!bad) print_digest("out", out, 256);
    CHECK(cudaFree(in));
    CHECK(cudaFree(key));
    CHECK(cudaFree(out));
}
