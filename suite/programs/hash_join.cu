// about: a hash join and a grouping over tables with strings, chains from the device heap and warp-wide insertion
//
// Orders are joined with customers through an open-addressing table that is
// filled by compare-and-swap and probed by tiles of eight threads; names are
// slices of one character column. Totals are grouped by city in shared memory
// first; what does not fit there goes to lists whose nodes come from malloc()
// in the kernel and are freed by another. Templates choose key and hash.
#include "case.h"
#include <algorithm>
#include <cooperative_groups.h>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>

namespace cg = cooperative_groups;

constexpr int kThreads = 128;
constexpr int kGroup = 8;
constexpr unsigned kEmpty = 0xffffffffu;

__host__ __device__ inline uint32_t mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

struct IntegerHash {
    __host__ __device__ uint32_t operator()(uint32_t key) const { return mix(key); }
};

// A column of strings: offsets into one run of characters.
struct Strings {
    const char *characters;
    const int *offsets;

    __host__ __device__ int length(int i) const { return offsets[i + 1] - offsets[i]; }
    __host__ __device__ bool equal(int i, int j) const {
        if (length(i) != length(j)) return false;
        for (int k = 0; k < length(i); k++)
            if (characters[offsets[i] + k] != characters[offsets[j] + k]) return false;
        return true;
    }
    __host__ __device__ uint32_t hash(int i) const {
        uint32_t hash = 2166136261u;
        for (int k = offsets[i]; k < offsets[i + 1]; k++) hash = (hash ^ static_cast<uint8_t>(characters[k])) * 16777619u;
        return mix(hash);
    }
};

// Open addressing with linear probing, a power of two of slots.
template <typename Hash>
class Table {
  public:
    struct Slot {
        unsigned key, value;
    };

    void create(unsigned slots) {
        mask_ = slots - 1;
        CHECK(cudaMalloc(&slots_, slots * sizeof(Slot)));
        CHECK(cudaMemset(slots_, 0xff, slots * sizeof(Slot)));
    }
    void destroy() { CHECK(cudaFree(slots_)); }

    __device__ bool insert(unsigned key, unsigned value) const {
        for (unsigned step = 0, at = Hash()(key) & mask_; step <= mask_; step++, at = (at + 1) & mask_) {
            const unsigned old = atomicCAS(&slots_[at].key, kEmpty, key);
            if (old == kEmpty || old == key) {
                atomicMin(&slots_[at].value, value);
                return old == kEmpty;
            }
        }
        return false;
    }

    // All threads of a tile look for one key, neighbouring slots at a time.
    template <typename Tile>
    __device__ unsigned find(const Tile &tile, unsigned key) const {
        for (unsigned base = Hash()(key); ; base += tile.size()) {
            const Slot slot = slots_[(base + tile.thread_rank()) & mask_];
            const unsigned hit = tile.ballot(slot.key == key);
            const unsigned empty = tile.ballot(slot.key == kEmpty);
            if (hit) return tile.shfl(slot.value, __ffs(hit) - 1);
            if (empty) return kEmpty;
        }
    }

  private:
    Slot *slots_;
    unsigned mask_;
};

using Customers = Table<IntegerHash>;

struct Order {
    unsigned customer;
    int amount;
};

struct Joined {
    int order, customer;
};

// ------------------------------------------------------------------- kernels

__global__ void build(Customers table, const unsigned *keys, int count, int *duplicates) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool fresh = i < count && table.insert(keys[i], i);
    const int repeated = __syncthreads_count(i < count && !fresh);
    if (threadIdx.x == 0 && repeated) atomicAdd(duplicates, repeated);
}

// A tile takes kGroup orders, one after the other; its lanes then take places
// in the output with one addition for the whole tile.
__global__ void probe(Customers table, const Order *orders, int count, Joined *out, int *matches) {
    auto tile = cg::tiled_partition<kGroup>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned mine = i < count ? orders[i].customer : 0;
    unsigned found = kEmpty;
    const int base = i - tile.thread_rank();
    for (int member = 0; member < kGroup; member++) {
        const unsigned key = tile.shfl(mine, member);
        if (base + member >= count) break;
        const unsigned value = table.find(tile, key);
        if (static_cast<int>(tile.thread_rank()) == member) found = value;
    }
    const unsigned hits = tile.ballot(found != kEmpty);
    int start = 0;
    if (tile.thread_rank() == 0 && hits) start = atomicAdd(matches, __popc(hits));
    start = tile.shfl(start, 0);
    if (found != kEmpty)
        out[start + __popc(hits & ((1u << tile.thread_rank()) - 1))] = {i, static_cast<int>(found)};
}

// An entry of a list of groups that found no place in shared memory.
struct Overflow {
    Overflow *next;
    int city;
    long long total;
};

struct Groups {
    int *representatives;   // row whose city stands for the group
    unsigned long long *totals;
    int *counts;
    unsigned slots;
    Overflow **overflow;    // one list a block
    int *failures;
};

__device__ void add_group(const Groups &groups, const Strings &cities, int city, long long total, int count) {
    unsigned at = cities.hash(city) & (groups.slots - 1);
    for (unsigned step = 0; step < groups.slots; step++, at = (at + 1) & (groups.slots - 1)) {
        const int old = atomicCAS(&groups.representatives[at], -1, city);
        if (old == -1 || cities.equal(old, city)) {
            atomicAdd(&groups.totals[at], static_cast<unsigned long long>(total));
            atomicAdd(&groups.counts[at], count);
            return;
        }
    }
    atomicAdd(groups.failures, 1);
}

__global__ void aggregate(const Joined *joined, int count, const Order *orders, Strings cities, Groups groups) {
    constexpr int kSlots = 16;
    __shared__ int owners[kSlots];
    __shared__ unsigned long long totals[kSlots];
    __shared__ int counts[kSlots];
    __shared__ Overflow *list;
    for (int i = threadIdx.x; i < kSlots; i += blockDim.x) {
        owners[i] = -1;
        totals[i] = 0;
        counts[i] = 0;
    }
    if (threadIdx.x == 0) list = nullptr;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const int city = joined[i].customer;
        const long long amount = orders[joined[i].order].amount;
        bool placed = false;
        unsigned at = cities.hash(city) & (kSlots - 1);
        for (int step = 0; step < 2 && !placed; step++, at = (at + 1) & (kSlots - 1)) {
            const int old = atomicCAS(&owners[at], -1, city);
            placed = old == -1 || cities.equal(old, city);
            if (placed) {
                atomicAdd(&totals[at], static_cast<unsigned long long>(amount));
                atomicAdd(&counts[at], 1);
            }
        }
        if (placed) continue;
        Overflow *entry = static_cast<Overflow *>(malloc(sizeof(Overflow)));
        if (!entry) {
            add_group(groups, cities, city, amount, 1);
            continue;
        }
        entry->city = city;
        entry->total = amount;
        entry->next = reinterpret_cast<Overflow *>(atomicExch(reinterpret_cast<unsigned long long *>(&list),
                                                              reinterpret_cast<unsigned long long>(entry)));
    }
    __syncthreads();
    if (threadIdx.x < kSlots && owners[threadIdx.x] != -1)
        add_group(groups, cities, owners[threadIdx.x], static_cast<long long>(totals[threadIdx.x]), counts[threadIdx.x]);
    if (threadIdx.x == 0) groups.overflow[blockIdx.x] = list;
}

__global__ void drain(Strings cities, Groups groups, int lists, int *freed) {
    const int which = blockIdx.x * blockDim.x + threadIdx.x;
    if (which >= lists) return;
    int count = 0;
    for (Overflow *entry = groups.overflow[which]; entry; count++) {
        add_group(groups, cities, entry->city, entry->total, 1);
        Overflow *next = entry->next;
        free(entry);
        entry = next;
    }
    groups.overflow[which] = nullptr;
    atomicAdd(freed, count);
}

// ---------------------------------------------------------------------- host

struct Column {
    std::string characters;
    std::vector<int> offsets{0};

    void add(const std::string &text) {
        characters += text;
        offsets.push_back(static_cast<int>(characters.size()));
    }
    std::string at(int i) const { return characters.substr(offsets[i], offsets[i + 1] - offsets[i]); }
};

int read_int(const int *device) {
    int value;
    CHECK(cudaMemcpy(&value, device, sizeof(value), cudaMemcpyDeviceToHost));
    return value;
}

int main() {
    constexpr int customers = 3000, orders = 12000, cities = 60, blocks = 16;
    std::vector<unsigned> keys(customers);
    Column city_column;
    for (int i = 0; i < customers; i++) {
        keys[i] = mix(i) % 100000;
        city_column.add("city of " + std::string(i % 7, 'x') + std::to_string(mix(i + 5) % cities));
    }
    std::vector<Order> order_rows(orders);
    for (int i = 0; i < orders; i++)
        order_rows[i] = {i % 3 ? keys[mix(i) % customers] : mix(i * 7) % 100000, static_cast<int>(mix(i + 99) % 2000) - 500};

    // The host's answer.
    std::map<unsigned, int> first;
    for (int i = 0; i < customers; i++) first.emplace(keys[i], i);
    std::map<std::string, std::pair<long long, int>> expected;
    int expected_matches = 0;
    for (const Order &order : order_rows) {
        auto at = first.find(order.customer);
        if (at == first.end()) continue;
        expected_matches++;
        auto &group = expected[city_column.at(at->second)];
        group.first += order.amount;
        group.second++;
    }

    Customers table;
    table.create(8192);
    unsigned *device_keys = upload(keys);
    Order *device_orders = upload(order_rows);
    const Strings strings = {upload(std::vector<char>(city_column.characters.begin(), city_column.characters.end())),
                             upload(city_column.offsets)};
    Joined *joined = zeroed<Joined>(orders);
    int *counters = zeroed<int>(4);
    Groups groups = {nullptr, zeroed<unsigned long long>(1024), zeroed<int>(1024), 1024, zeroed<Overflow *>(blocks), counters + 2};
    CHECK(cudaMalloc(&groups.representatives, groups.slots * sizeof(int)));
    CHECK(cudaMemset(groups.representatives, 0xff, groups.slots * sizeof(int)));
    build<<<(customers + kThreads - 1) / kThreads, kThreads>>>(table, device_keys, customers, counters);
    probe<<<(orders + kThreads - 1) / kThreads, kThreads>>>(table, device_orders, orders, joined, counters + 1);
    FINISH();
    const int matches = read_int(counters + 1);
    aggregate<<<blocks, kThreads>>>(joined, matches, device_orders, strings, groups);
    drain<<<1, 32>>>(strings, groups, blocks, counters + 3);
    FINISH();

    std::vector<int> owners(groups.slots), counts(groups.slots);
    std::vector<long long> totals(groups.slots);
    CHECK(cudaMemcpy(owners.data(), groups.representatives, owners.size() * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(counts.data(), groups.counts, counts.size() * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(totals.data(), groups.totals, totals.size() * sizeof(long long), cudaMemcpyDeviceToHost));
    std::map<std::string, std::pair<long long, int>> got;
    for (unsigned i = 0; i < groups.slots; i++)
        if (owners[i] >= 0) got[city_column.at(owners[i])] = {totals[i], counts[i]};
    unsigned long long digest = 0;
    for (const auto &[city, group] : got) digest = digest * 31 + digest_bytes(city.data(), city.size()) + group.first + group.second;
    const int duplicates = customers - static_cast<int>(first.size());
    const bool overflowed = read_int(counters + 3) > 0;
    const bool right = got == expected && matches == expected_matches && read_int(counters) == duplicates &&
                       read_int(counters + 2) == 0 && overflowed;
    std::printf("%d matches, %d duplicate keys, %zu groups %016llx, %s\n", matches, duplicates, got.size(), digest,
                right ? "right" : "WRONG");
    table.destroy();
    for (void *memory : {static_cast<void *>(device_keys), static_cast<void *>(device_orders), (void *)strings.characters,
                         (void *)strings.offsets, static_cast<void *>(joined), static_cast<void *>(counters),
                         static_cast<void *>(groups.representatives), static_cast<void *>(groups.totals),
                         static_cast<void *>(groups.counts), static_cast<void *>(groups.overflow)})
        CHECK(cudaFree(memory));
    return !right;
}
