// bug: the address of a member of a packed struct is used as a pointer to a number
// expect: rule=misaligned-access function=total size=1300
#include "case.h"

struct __attribute__((packed)) Trade {
    char side;
    float price;
    long long time;
};

__device__ __noinline__ float total(const char *first, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += *reinterpret_cast<const float *>(first + i * sizeof(Trade));  // BUG
    return sum;
}

// The compiler reads members of a packed struct byte by byte.
__global__ void prices(const Trade *trades, float *out, int n, bool by_pointer) {
    int i = threadIdx.x;
    if (i >= n) return;
    const Trade &trade = trades[i];
    out[i] = by_pointer ? total(&trade.side + 1, n - i) : trade.price;
}

int main(int argc, char **argv) {
    const int n = 100;
    static_assert(sizeof(Trade) == 13);
    Trade *trades = reinterpret_cast<Trade *>(upload(counting<char>(n * sizeof(Trade))));
    float *out = zeroed<float>(n);
    prices<<<1, 128>>>(trades, out, n, is_bad(argc, argv));
    FINISH();
    print_digest("out", reinterpret_cast<unsigned *>(out), n);
}
