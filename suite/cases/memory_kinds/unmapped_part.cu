// bug: the middle of a mapped buffer is unmapped, and used through a pointer into it
// expect: rule=use-after-free function=fill
#include "mapped.h"

__global__ void fill(int *first, int *second, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        first[i] = i;
        second[i] = -i;  // BUG
    }
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    Mapped memory(3);
    for (int k = 0; k < 3; k++) memory.map(k);
    int *chunks[3];
    for (int k = 0; k < 3; k++) chunks[k] = reinterpret_cast<int *>(memory.base + k * memory.size);
    for (int *chunk : {chunks[1], chunks[2]}) {
        fill<<<1, 128>>>(chunks[0], chunk, 1000);
        FINISH();
    }
    memory.unmap(1);
    fill<<<1, 128>>>(chunks[0], chunks[2 - bad] + 500, 1000);
    FINISH();
    print_digest("first", chunks[0], 1000);
    memory.unmap(0);
    memory.unmap(2);
}
