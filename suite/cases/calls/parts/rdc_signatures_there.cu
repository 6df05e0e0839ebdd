// The other file of rdc_signatures.cu.
#include "signatures.h"

__device__ int mixed_there(char c, short s, Odd odd, float f, double d, Wide wide, int *p) {
    int sum = c * 3 + s * 5 + int(f * 7) + int(d * 11) + odd.last[0] * 13 + wide.place[1] + p[2];
    for (int i = 0; i < 10; i++) sum += odd.bytes[i] * i;
    for (int i = 0; i < 3; i++) sum += int(wide.values[i]) << i;
    return sum;
}
__device__ Pair pairs_there(int *p, long long n) { return {p + n, p}; }
__device__ Wide wides_there(Wide wide, const int *p, unsigned char c) {
    wide.values[1] += p[0] + c;
    wide.place += 1;
    return wide;
}
__device__ bool tests_there(const int *p) { return p[1] % 3 == 1; }
__device__ double numbers_there() { return 0.5; }

__device__ Calls there = {mixed_there, pairs_there, wides_there, tests_there, numbers_there};
