// bug: memory from cuMemMap is written past the end of what is mapped, where its reservation goes on
// expect: rule=global-out-of-bounds-write function=fill
#include "mapped.h"

__global__ void fill(int *data, long long n) {
    for (long long i = threadIdx.x; i < n; i += 4096) data[i] = 1;
    if (threadIdx.x == 0) data[n - 1] = 2;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    Mapped memory(4);
    // Two chunks side by side are one buffer; the third is missing.
    for (int k : {0, 1, 3}) memory.map(k);
    int *data = reinterpret_cast<int *>(memory.base);
    fill<<<1, 128>>>(data, 2 * memory.size / sizeof(int) + bad);
    FINISH();
    print_digest("first", data + 4096, 4096);
    for (int k : {0, 1, 3}) memory.unmap(k);
}
