// bug: digits are written into a local array that has no room for the terminator, and printed
// expect: rule=local-out-of-bounds-read function=digits size=16
#include "case.h"

__global__ void digits(const long long *numbers, int *out) {
    int counts[8];
    char text[16];
    for (int i = 0; i < 8; i++) counts[i] = 0x31313131;
    long long rest = numbers[threadIdx.x];
    int length = 0;
    while (rest > 0 && length < 16) {
        text[length++] = '0' + rest % 10;
        counts[rest % 8]++;
        rest /= 10;
    }
    if (length < 16) text[length] = 0;
    printf("%c%s\n", '-', text);  // BUG
    out[threadIdx.x] = counts[threadIdx.x];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    long long *numbers = upload(std::vector<long long>{7, bad ? 1234567890123456 : 123456789012345});
    int *out = zeroed<int>(2);
    digits<<<1, 2>>>(numbers, out);
    FINISH();
    print_digest("out", out, 2);
    CHECK(cudaFree(numbers));
    CHECK(cudaFree(out));
}
