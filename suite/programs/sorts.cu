// about: radix sort with block scans, bitonic sort in shared memory, and a merge of sorted runs
//
// Three ways to sort the same records, each checked against std::stable_sort:
// * a least-significant-digit radix sort, four bits a pass, with histograms in
//   shared memory, a scan over all blocks' counts and a stable scatter;
// * a bitonic network over blocks in dynamic shared memory, whose sorted runs
//   are merged pairwise by binary search (merge path);
// * a segmented sort of short rows, one warp a row, in registers.
#include "case.h"
#include <algorithm>
#include <cstdint>
#include <numeric>

constexpr int kThreads = 128;
constexpr int kItems = 4;
constexpr int kTile = kThreads * kItems;
constexpr int kDigitBits = 4;
constexpr int kDigits = 1 << kDigitBits;

// ---------------------------------------------------------------- block scan

// Inclusive scan within a warp.
template <typename T>
__device__ T warp_scan(T value) {
    const int lane = threadIdx.x & 31;
    for (int distance = 1; distance < 32; distance *= 2) {
        const T other = __shfl_up_sync(0xffffffffu, value, distance);
        if (lane >= distance) value += other;
    }
    return value;
}

// Exclusive scan over the block; all threads get the total too.
template <typename T, int Threads>
class BlockScan {
  public:
    struct Storage {
        T warps[Threads / 32];
        T total;
    };

    __device__ explicit BlockScan(Storage &storage) : storage_(storage) {}

    __device__ T exclusive(T value, T &total) {
        const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        const T inclusive = warp_scan(value);
        if (lane == 31) storage_.warps[warp] = inclusive;
        __syncthreads();
        if (warp == 0) {
            const T mine = lane < Threads / 32 ? storage_.warps[lane] : T(0);
            const T scanned = warp_scan(mine);
            if (lane < Threads / 32) storage_.warps[lane] = scanned - mine;
            if (lane == Threads / 32 - 1) storage_.total = scanned;
        }
        __syncthreads();
        total = storage_.total;
        const T result = storage_.warps[warp] + inclusive - value;
        __syncthreads();
        return result;
    }

  private:
    Storage &storage_;
};

// ---------------------------------------------------------------- radix sort

template <typename Key>
__device__ unsigned digit_of(Key key, int shift) {
    return static_cast<unsigned>(key >> shift) & (kDigits - 1);
}

// counts[digit * blocks + block]: digit-major, so that one scan gives offsets.
template <typename Key>
__global__ void count_digits(const Key *keys, int count, int shift, unsigned *counts) {
    __shared__ unsigned histogram[kDigits];
    if (threadIdx.x < kDigits) histogram[threadIdx.x] = 0;
    __syncthreads();
    const int base = blockIdx.x * kTile;
    for (int item = 0; item < kItems; item++) {
        const int at = base + item * kThreads + threadIdx.x;
        if (at < count) atomicAdd(&histogram[digit_of(keys[at], shift)], 1u);
    }
    __syncthreads();
    if (threadIdx.x < kDigits)
        counts[threadIdx.x * gridDim.x + blockIdx.x] = histogram[threadIdx.x];
}

// One block walks over all counts, a tile at a time.
__global__ void scan_counts(unsigned *counts, int count) {
    using Scan = BlockScan<unsigned, kThreads>;
    __shared__ Scan::Storage storage;
    unsigned carry = 0;
    for (int base = 0; base < count; base += kThreads) {
        const int at = base + threadIdx.x;
        const unsigned value = at < count ? counts[at] : 0;
        unsigned total;
        const unsigned before = Scan(storage).exclusive(value, total);
        if (at < count) counts[at] = carry + before;
        carry += total;
    }
}

template <typename Key, typename Value>
__global__ void scatter(const Key *keys, const Value *values, int count, int shift,
                        const unsigned *offsets, Key *keys_out, Value *values_out) {
    using Scan = BlockScan<unsigned, kThreads>;
    __shared__ Scan::Storage storage;
    __shared__ unsigned next[kDigits];
    if (threadIdx.x < kDigits) next[threadIdx.x] = offsets[threadIdx.x * gridDim.x + blockIdx.x];
    __syncthreads();
    for (int item = 0; item < kItems; item++) {
        const int at = blockIdx.x * kTile + item * kThreads + threadIdx.x;
        const bool valid = at < count;
        const Key key = valid ? keys[at] : Key(0);
        const unsigned digit = valid ? digit_of(key, shift) : kDigits;
        // Stable rank among the threads that hold the same digit.
        unsigned rank = 0, totals[kDigits];
        for (unsigned d = 0; d < kDigits; d++) {
            const unsigned before = Scan(storage).exclusive(digit == d ? 1u : 0u, totals[d]);
            if (digit == d) rank = before;
        }
        if (valid) {
            const unsigned to = next[digit] + rank;
            keys_out[to] = key;
            values_out[to] = values[at];
        }
        __syncthreads();
        if (threadIdx.x < kDigits) next[threadIdx.x] += totals[threadIdx.x];
        __syncthreads();
    }
}

template <typename Key, typename Value>
class RadixSorter {
  public:
    explicit RadixSorter(int capacity) : blocks_((capacity + kTile - 1) / kTile) {
        CHECK(cudaMalloc(&counts_, sizeof(unsigned) * kDigits * blocks_));
        CHECK(cudaMalloc(&keys_, sizeof(Key) * capacity));
        CHECK(cudaMalloc(&values_, sizeof(Value) * capacity));
    }
    ~RadixSorter() {
        CHECK(cudaFree(counts_));
        CHECK(cudaFree(keys_));
        CHECK(cudaFree(values_));
    }
    RadixSorter(const RadixSorter &) = delete;
    RadixSorter &operator=(const RadixSorter &) = delete;

    // Sorts in place; an even number of passes ends where it began.
    void sort(Key *keys, Value *values, int count) {
        const int blocks = (count + kTile - 1) / kTile;
        Key *from = keys, *to = keys_;
        Value *from_values = values, *to_values = values_;
        for (int shift = 0; shift < int(sizeof(Key)) * 8; shift += kDigitBits) {
            count_digits<<<blocks, kThreads>>>(from, count, shift, counts_);
            scan_counts<<<1, kThreads>>>(counts_, kDigits * blocks);
            scatter<<<blocks, kThreads>>>(from, from_values, count, shift, counts_, to, to_values);
            std::swap(from, to);
            std::swap(from_values, to_values);
        }
        FINISH();
    }

  private:
    int blocks_;
    unsigned *counts_ = nullptr;
    Key *keys_ = nullptr;
    Value *values_ = nullptr;
};

// ------------------------------------------------------------ bitonic, merge

template <typename Key>
__global__ void bitonic_blocks(Key *keys, int count, Key last) {
    extern __shared__ unsigned char raw[];
    Key *tile = reinterpret_cast<Key *>(raw);
    const int size = 2 * blockDim.x, base = blockIdx.x * size;
    for (int i = threadIdx.x; i < size; i += blockDim.x)
        tile[i] = base + i < count ? keys[base + i] : last;
    for (int width = 2; width <= size; width *= 2) {
        for (int stride = width / 2; stride > 0; stride /= 2) {
            __syncthreads();
            const int low = 2 * stride * (threadIdx.x / stride) + threadIdx.x % stride;
            const bool ascending = (low & width) == 0 || width == size;
            const Key a = tile[low], b = tile[low + stride];
            if ((a > b) == ascending) {
                tile[low] = b;
                tile[low + stride] = a;
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += blockDim.x)
        if (base + i < count) keys[base + i] = tile[i];
}

// How many of `run`'s elements come before `key`; ties go to the left run.
template <bool Inclusive, typename Key>
__device__ int rank_in(const Key *run, int length, Key key) {
    int low = 0, high = length;
    while (low < high) {
        const int middle = (low + high) / 2;
        const bool before = Inclusive ? !(key < run[middle]) : run[middle] < key;
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

template <typename Key>
__global__ void merge_runs(const Key *in, Key *out, int count, int run) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    const int pair = at / (2 * run) * (2 * run);
    const int middle = min(pair + run, count), end = min(pair + 2 * run, count);
    const Key key = in[at];
    int to;
    if (at < middle)
        to = at + rank_in<false>(in + middle, end - middle, key);
    else
        to = pair + (at - middle) + rank_in<true>(in + pair, middle - pair, key);
    out[to] = key;
}

template <typename Key>
Key *merge_sort(Key *keys, Key *scratch, int count, Key last) {
    const int threads = 256, tile = 2 * threads;
    const int blocks = (count + tile - 1) / tile;
    bitonic_blocks<<<blocks, threads, tile * sizeof(Key)>>>(keys, count, last);
    for (int run = tile; run < count; run *= 2) {
        merge_runs<<<(count + 127) / 128, 128>>>(keys, scratch, count, run);
        std::swap(keys, scratch);
    }
    FINISH();
    return keys;
}

// -------------------------------------------------------------- rows by warp

// A row of up to 32 elements stays in the registers of one warp.
__global__ void sort_rows(int *data, const int *starts, int rows) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    const int start = starts[row], length = starts[row + 1] - start;
    int value = lane < length ? data[start + lane] : 0x7fffffff;
    for (int width = 2; width <= 32; width *= 2) {
        for (int stride = width / 2; stride > 0; stride /= 2) {
            const int other = __shfl_xor_sync(0xffffffffu, value, stride);
            const bool ascending = (lane & width) == 0, lower = (lane & stride) == 0;
            value = ascending == lower ? min(value, other) : max(value, other);
        }
    }
    if (lane < length) data[start + lane] = value;
}

// --------------------------------------------------------------------- host

uint64_t next_random(uint64_t &state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

template <typename Key>
bool radix_case(const char *name, int count, uint64_t seed) {
    std::vector<Key> keys(count);
    for (Key &key : keys) key = static_cast<Key>(next_random(seed));
    std::vector<int> order(count);
    std::iota(order.begin(), order.end(), 0);
    Key *device_keys = upload(keys);
    int *device_order = upload(order);
    RadixSorter<Key, int>(count).sort(device_keys, device_order, count);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] < keys[b]; });
    std::vector<int> got(count);
    CHECK(cudaMemcpy(got.data(), device_order, count * sizeof(int), cudaMemcpyDeviceToHost));
    print_digest(name, device_keys, count);
    CHECK(cudaFree(device_keys));
    CHECK(cudaFree(device_order));
    return got == order;
}

template <typename Key>
bool merge_case(const char *name, int count, uint64_t seed, Key last) {
    std::vector<Key> keys(count);
    for (Key &key : keys) key = static_cast<Key>(next_random(seed) % 5000);
    Key *device = upload(keys), *scratch = zeroed<Key>(count);
    const Key *sorted = merge_sort(device, scratch, count, last);
    std::vector<Key> got(count);
    CHECK(cudaMemcpy(got.data(), sorted, count * sizeof(Key), cudaMemcpyDeviceToHost));
    print_digest(name, sorted, count);
    std::sort(keys.begin(), keys.end());
    CHECK(cudaFree(device));
    CHECK(cudaFree(scratch));
    return got == keys;
}

bool rows_case(int rows, uint64_t seed) {
    std::vector<int> starts(1, 0), data;
    for (int row = 0; row < rows; row++) {
        const int length = static_cast<int>(next_random(seed) % 33);
        for (int i = 0; i < length; i++) data.push_back(int(next_random(seed) % 100000) - 50000);
        starts.push_back(static_cast<int>(data.size()));
    }
    int *device = upload(data), *device_starts = upload(starts);
    sort_rows<<<(rows * 32 + 127) / 128, 128>>>(device, device_starts, rows);
    FINISH();
    for (int row = 0; row < rows; row++)
        std::sort(data.begin() + starts[row], data.begin() + starts[row + 1]);
    std::vector<int> got(data.size());
    CHECK(cudaMemcpy(got.data(), device, got.size() * sizeof(int), cudaMemcpyDeviceToHost));
    print_digest("rows", device, got.size());
    CHECK(cudaFree(device));
    CHECK(cudaFree(device_starts));
    return got == data;
}

int main() {
    int wrong = 0;
    wrong += !radix_case<uint32_t>("radix 32", 20000, 88172645463325252ull);
    wrong += !radix_case<uint64_t>("radix 64", 3001, 362436069ull);
    wrong += !radix_case<uint8_t>("radix 8", 513, 521288629ull);
    wrong += !merge_case<int>("merge int", 10007, 5783321ull, 0x7fffffff);
    wrong += !merge_case<float>("merge float", 4095, 6615241ull, 1e30f);
    wrong += !rows_case(777, 123456789ull);
    std::printf("%s\n", wrong ? "FAILED" : "sorted");
    return wrong;
}
