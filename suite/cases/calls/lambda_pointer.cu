// bug: a lambda that is called through a pointer writes behind a local array
// expect: rule=local-out-of-bounds-write function=apply size=40
#include "case.h"

typedef void (*Visit)(char *bytes, int i);

__global__ void apply(int *out, int which, int n) {
    const Visit visits[2] = {
        [](char *bytes, int i) { bytes[i] = char(i); },  // BUG
        [](char *bytes, int i) { bytes[i] ^= 1; },
    };
    char bytes[40];
    char others[40];
    for (int i = 0; i < 40; i++) bytes[i] = others[i] = 1;
    for (int i = 0; i < n; i++) visits[which](bytes, i);
    for (int i = 0; i < 40; i++) visits[1 - which](others, i);
    int sum = 0;
    for (int i = 0; i < 40; i++) sum += bytes[i] * i + others[39 - i];
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(32);
    apply<<<1, 32>>>(out, 0, bad ? 44 : 40);
    FINISH();
    print_digest("out", out, bad ? 0 : 32);
    CHECK(cudaFree(out));
}
