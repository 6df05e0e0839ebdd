// about: Monte Carlo pricing with a counter-based generator, payoffs as device objects, and grid-wide reductions
// build: arch=80
//
// Random walks of prices in fixed point, so that every sum has one value on
// every device. Payoffs are C++ objects with virtual functions, made on the
// device with new and destroyed there. Estimates are reduced by cooperative
// groups: tiles of a warp, the block through shared memory, and the grid in
// one cooperative launch. A binomial tree in a managed array gives the value
// that the European options must come near to.
#include "case.h"
#include <cmath>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdint>

namespace cg = cooperative_groups;

constexpr int kThreads = 128;
constexpr int kSteps = 64;
constexpr int kOne = 1 << 16;  // 1.0
constexpr int kOptions = 5;

struct Market {
    int start;           // price at the beginning
    int up, down;        // factors of a step
    unsigned threshold;  // a step goes up where the random word is below
};

__constant__ Market market;

// ------------------------------------------------------------------ generator

// Philox-like: ten rounds of multiply and exchange over a 2 x 32 bit counter.
class Random {
  public:
    __host__ __device__ Random(unsigned stream, unsigned path) : key_(stream * 0x9e3779b9u + 1), path_(path) {}

    __host__ __device__ unsigned next() {
        if (left_ == 0) refill();
        return words_[--left_];
    }

  private:
    __host__ __device__ void refill() {
        unsigned a = counter_++, b = path_, key = key_;
        for (int round = 0; round < 10; round++) {
            const uint64_t product = static_cast<uint64_t>(a) * 0xd2511f53u;
            a = static_cast<unsigned>(product >> 32) ^ b ^ key;
            b = static_cast<unsigned>(product);
            key += 0x9e3779b9u;
        }
        words_[0] = a;
        words_[1] = b;
        left_ = 2;
    }

    unsigned words_[2], key_, path_, counter_ = 0;
    int left_ = 0;
};

// -------------------------------------------------------------------- payoffs

class Payoff {
  public:
    __host__ __device__ explicit Payoff(int strike) : strike_(strike) {}
    __host__ __device__ virtual ~Payoff() {}
    // Called for each price of a path, and at its end.
    __host__ __device__ virtual void begin() {}
    __host__ __device__ virtual void step(int price) {}
    __host__ __device__ virtual long long end(int price) = 0;

  protected:
    int strike_;
};

class Call : public Payoff {
  public:
    using Payoff::Payoff;
    __host__ __device__ long long end(int price) override { return price > strike_ ? price - strike_ : 0; }
};

class Put : public Payoff {
  public:
    using Payoff::Payoff;
    __host__ __device__ long long end(int price) override { return price < strike_ ? strike_ - price : 0; }
};

// On the average of the path.
class Asian : public Payoff {
  public:
    using Payoff::Payoff;
    __host__ __device__ void begin() override { sum_ = 0; }
    __host__ __device__ void step(int price) override { sum_ += price; }
    __host__ __device__ long long end(int) override {
        const long long mean = sum_ / kSteps;
        return mean > strike_ ? mean - strike_ : 0;
    }

  private:
    long long sum_ = 0;
};

// Worth nothing once a price was at or above the barrier.
class Barrier : public Call {
  public:
    __host__ __device__ Barrier(int strike, int barrier) : Call(strike), barrier_(barrier) {}
    __host__ __device__ void begin() override { out_ = false; }
    __host__ __device__ void step(int price) override { out_ |= price >= barrier_; }
    __host__ __device__ long long end(int price) override { return out_ ? 0 : Call::end(price); }

  private:
    int barrier_;
    bool out_ = false;
};

// The best of the last prices, kept in a ring.
class Lookback : public Payoff {
  public:
    static constexpr int kWindow = 12;
    using Payoff::Payoff;
    __host__ __device__ void begin() override {
        at_ = 0;
        for (int &price : ring_) price = 0;
    }
    __host__ __device__ void step(int price) override { ring_[at_++ % kWindow] = price; }
    __host__ __device__ long long end(int) override {
        int best = 0;
        for (int price : ring_) best = price > best ? price : best;
        return best > strike_ ? best - strike_ : 0;
    }

  private:
    int ring_[kWindow], at_ = 0;
};

__host__ __device__ Payoff *make_payoff(int kind) {
    switch (kind) {
        case 0: return new Call(100 * kOne);
        case 1: return new Put(105 * kOne);
        case 2: return new Asian(100 * kOne);
        case 3: return new Barrier(95 * kOne, 120 * kOne);
        default: return new Lookback(110 * kOne);
    }
}

__host__ __device__ long long run_path(const Market &m, Payoff &payoff, unsigned stream, unsigned path) {
    Random random(stream, path);
    payoff.begin();
    int price = m.start;
    for (int step = 0; step < kSteps; step++) {
        const int factor = random.next() < m.threshold ? m.up : m.down;
        price = static_cast<int>(static_cast<long long>(price) * factor >> 16);
        payoff.step(price);
    }
    return payoff.end(price);
}

// -------------------------------------------------------------------- kernels

struct Estimate {
    long long sum;
    unsigned long long squares;  // of whole units, so that they fit
    int in_the_money;
};

// Each thread has an object of its own for each option, as payoffs have state.
__global__ void price_options(int paths, Estimate *partials) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    __shared__ Estimate warps[kThreads / 32];
    for (int option = 0; option < kOptions; option++) {
        Payoff *payoff = make_payoff(option);
        if (!payoff) return;
        Estimate mine = {};
        for (int path = blockIdx.x * blockDim.x + threadIdx.x; path < paths; path += gridDim.x * blockDim.x) {
            const long long value = run_path(market, *payoff, option, path);
            mine.sum += value;
            mine.squares += (value >> 16) * (value >> 16);
            mine.in_the_money += value > 0;
        }
        delete payoff;
        mine.sum = cg::reduce(warp, mine.sum, cg::plus<long long>());
        mine.squares = cg::reduce(warp, mine.squares, cg::plus<unsigned long long>());
        mine.in_the_money = cg::reduce(warp, mine.in_the_money, cg::plus<int>());
        if (warp.thread_rank() == 0) warps[warp.meta_group_rank()] = mine;
        block.sync();
        if (block.thread_rank() == 0) {
            Estimate sum = {};
            for (const Estimate &part : warps) {
                sum.sum += part.sum;
                sum.squares += part.squares;
                sum.in_the_money += part.in_the_money;
            }
            partials[option * gridDim.x + blockIdx.x] = sum;
        }
        block.sync();
    }
}

// One cooperative launch: halves the number of partial sums until one is left.
__global__ void reduce_grid(int blocks, Estimate *partials, Estimate *results) {
    cg::grid_group grid = cg::this_grid();
    for (int left = blocks; left > 1; left = (left + 1) / 2) {
        const int half = left / 2, kept = left - half;
        for (int i = grid.thread_rank(); i < half * kOptions; i += grid.size()) {
            Estimate &to = partials[i / half * blocks + i % half];
            const Estimate &from = partials[i / half * blocks + kept + i % half];
            to.sum += from.sum;
            to.squares += from.squares;
            to.in_the_money += from.in_the_money;
        }
        grid.sync();
    }
    if (grid.thread_rank() < kOptions) results[grid.thread_rank()] = partials[grid.thread_rank() * blocks];
}

// Values of a binomial tree, rolled back in place by one block.
__global__ void binomial(double up, double down, double probability, double start, double strike, double *values) {
    const int leaf = threadIdx.x;
    if (leaf <= kSteps) {
        double price = start;
        for (int i = 0; i < kSteps; i++) price *= i < leaf ? up : down;
        values[leaf] = fmax(price - strike, 0.0);
    }
    for (int step = kSteps; step > 0; step--) {
        __syncthreads();
        const double value = leaf < step ? probability * values[leaf + 1] + (1 - probability) * values[leaf] : 0;
        __syncthreads();
        if (leaf < step) values[leaf] = value;
    }
}

// ---------------------------------------------------------------------- host

int main() {
    constexpr int paths = 6000, blocks = 12;
    const Market m = {100 * kOne, 66200, 64885, 0x80000000u};
    CHECK(cudaMemcpyToSymbol(market, &m, sizeof(m)));
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20));
    Estimate *partials = zeroed<Estimate>(kOptions * blocks), *results;
    CHECK(cudaMallocManaged(&results, kOptions * sizeof(Estimate)));
    price_options<<<blocks, kThreads>>>(paths, partials);
    int count = blocks;
    void *arguments[] = {&count, &partials, &results};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(reduce_grid), dim3(2), dim3(64), arguments, 0, nullptr));
    double *tree;
    CHECK(cudaMallocManaged(&tree, (kSteps + 1) * sizeof(double)));
    binomial<<<1, 96>>>(m.up / 65536.0, m.down / 65536.0, 0.5, 100, 100, tree);
    FINISH();

    int wrong = 0;
    for (int option = 0; option < kOptions; option++) {
        Payoff *payoff = make_payoff(option);
        Estimate expected = {};
        for (int path = 0; path < paths; path++) {
            const long long value = run_path(m, *payoff, option, path);
            expected.sum += value;
            expected.squares += (value >> 16) * (value >> 16);
            expected.in_the_money += value > 0;
        }
        delete payoff;
        const Estimate &got = results[option];
        const bool same = got.sum == expected.sum && got.squares == expected.squares &&
                          got.in_the_money == expected.in_the_money;
        std::printf("option %d: sum %lld, squares %llu, %d in the money, %s\n", option, got.sum, got.squares,
                    got.in_the_money, same ? "as on the host" : "WRONG");
        wrong += !same;
    }
    const double estimate = results[0].sum / 65536.0 / paths;
    const double error = std::sqrt(static_cast<double>(results[0].squares) / paths / paths);
    const bool near = std::fabs(estimate - tree[0]) < 4 * error + 0.1;
    std::printf("the call is %s the binomial tree's value\n", near ? "near" : "FAR FROM");
    CHECK(cudaFree(partials));
    CHECK(cudaFree(results));
    CHECK(cudaFree(tree));
    return wrong || !near;
}
