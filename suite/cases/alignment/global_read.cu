// bug: the records of a packed file are read as int, one byte past where they start
// expect: rule=misaligned-access function=sum size=4096
#include "case.h"

__global__ void sum(const char *file, unsigned *out, int records, int header) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < records) out[i] = *reinterpret_cast<const unsigned *>(file + header + 8 * i) + 1;  // BUG
}

int main(int argc, char **argv) {
    const int records = 500;
    char *file = upload(counting<char>(4096));
    unsigned *out = zeroed<unsigned>(records);
    sum<<<4, 128>>>(file, out, records, is_bad(argc, argv) ? 9 : 8);
    FINISH();
    print_digest("out", out, records);
}
