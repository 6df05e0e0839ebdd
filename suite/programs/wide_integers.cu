// about: integers of 128 bits: products, quotients, remainders, shifts and comparisons, as the host computes them
// build: arch=75
// feature: __int128
#include "case.h"
#include <cstdint>

typedef unsigned __int128 Wide;
typedef __int128 Signed;

constexpr int RESULTS = 14;

struct Pair {
    uint64_t upper, lower;
};

__host__ __device__ Wide whole(Pair pair) { return static_cast<Wide>(pair.upper) << 64 | pair.lower; }

__host__ __device__ Pair halves(Wide wide) { return {static_cast<uint64_t>(wide >> 64), static_cast<uint64_t>(wide)}; }

/// All operations on one pair of operands, of which the second is not 0.
__host__ __device__ void compute(Wide a, Wide b, Pair *to) {
    const Signed c = static_cast<Signed>(a), d = static_cast<Signed>(b);
    const unsigned by = static_cast<unsigned>(b) % 128;
    const Wide all[RESULTS] = {
        a + b, a - b, a * b, a / b, a % b, a << by, a >> by,
        static_cast<Wide>(c >> by), static_cast<Wide>(-c),
        // (The least integer has no quotient by -1.)
        static_cast<Wide>(d == -1 ? 0 : c / d), static_cast<Wide>(d == -1 ? 0 : c % d),
        static_cast<Wide>(a < b), static_cast<Wide>(c < d), a / static_cast<uint64_t>(b | 1),
    };
    for (int at = 0; at < RESULTS; at++) to[at] = halves(all[at]);
}

__global__ void compute_all(const Pair *from, int count, Pair *to) {
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < count * count; at += gridDim.x * blockDim.x)
        compute(whole(from[at / count]), whole(from[at % count]), to + at * RESULTS);
}

int main() {
    std::vector<Pair> operands = {
        {0, 1}, {0, 7}, {0, 10}, {0, 100}, {0, 1000000007}, {0, UINT64_MAX}, {1, 0}, {5, 100},
        {0x123456789abcdef, 0xfedcba9876543210}, {INT64_MAX, UINT64_MAX}, {1ull << 63, 0}, {UINT64_MAX, UINT64_MAX},
    };
    uint64_t state = 0x9e3779b97f4a7c15;
    for (int added = 0; added < 36; added++) {
        uint64_t words[2];
        for (uint64_t &word : words) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            word = state >> state % 60;
        }
        operands.push_back({added % 3 ? words[0] : 0, words[1] | 1});
    }
    const int count = static_cast<int>(operands.size());
    Pair *from = upload(operands), *to;
    std::vector<Pair> got(static_cast<size_t>(count) * count * RESULTS);
    CHECK(cudaMalloc(&to, got.size() * sizeof(Pair)));
    compute_all<<<8, 64>>>(from, count, to);
    FINISH();
    CHECK(cudaMemcpy(got.data(), to, got.size() * sizeof(Pair), cudaMemcpyDeviceToHost));
    int wrong[RESULTS] = {};
    uint64_t digest = 0;
    for (int at = 0; at < count * count; at++) {
        Pair wanted[RESULTS];
        compute(whole(operands[at / count]), whole(operands[at % count]), wanted);
        for (int which = 0; which < RESULTS; which++) {
            const Pair &one = got[static_cast<size_t>(at) * RESULTS + which];
            wrong[which] += whole(one) != whole(wanted[which]);
            digest = digest * 31 + one.upper * 7 + one.lower;
        }
    }
    int all = 0;
    for (int which = 0; which < RESULTS; which++) {
        if (wrong[which]) std::fprintf(stderr, "operation %d is wrong of %d pairs\n", which, wrong[which]);
        all += wrong[which];
    }
    std::printf("%d pairs, %d wrong, digest %016llx\n", count * count, all, static_cast<unsigned long long>(digest));
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
    return all != 0;
}
