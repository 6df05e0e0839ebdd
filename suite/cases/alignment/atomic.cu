// bug: 64-bit counters behind a header of 12 bytes
// expect: rule=misaligned-access function=count size=1040
#include "case.h"

__global__ void count(char *table, const int *keys, int n, int header) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(reinterpret_cast<unsigned long long *>(table + header) + keys[i] % 128, 1ull);  // BUG
}

int main(int argc, char **argv) {
    const int n = 1000;
    char *table = zeroed<char>(16 + 128 * 8);
    int *keys = upload(counting<int>(n));
    count<<<8, 128>>>(table, keys, n, is_bad(argc, argv) ? 12 : 16);
    FINISH();
    print_digest("table", table, 16 + 128 * 8);
}
