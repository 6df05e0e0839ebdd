// bug: a message is put together in a local array of bytes, a number at any place
// expect: rule=misaligned-access function=encode size=64
#include "case.h"

__global__ void encode(unsigned *out, const int *places, int n) {
    __align__(8) char message[64];
    for (int i = 0; i < 64; ++i) message[i] = i;
    for (int i = 0; i < n; ++i) *reinterpret_cast<volatile int *>(message + places[i]) = i + threadIdx.x;  // BUG
    unsigned sum = 0;
    for (int i = 0; i < 64; ++i) sum = sum * 31 + message[places[i % n] % 4 * 3 + i / 2];
    out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    std::vector<int> starts = {0, 8, 20, is_bad(argc, argv) ? 41 : 40};
    int *places = upload(starts);
    unsigned *out = zeroed<unsigned>(32);
    encode<<<1, 32>>>(out, places, 4);
    FINISH();
    print_digest("out", out, 32);
}
