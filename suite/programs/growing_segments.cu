// about: a caching allocator over reserved addresses, whose segment grows and shrinks below two streams, pools and graphs
//
// A segment of reserved addresses is mapped chunk by chunk as blocks are
// needed, and unmapped from its end as they are not, in the manner of
// deep-learning frameworks. Sequences live in blocks of it; kernels in two
// streams extend them while others run, find them through a table in memory,
// take temporaries from a stream-ordered pool, and are replayed by graphs: one
// that was captured and destroyed since, one whose node gets other blocks from
// time to time. Everything is held against the same arithmetic on the host.
#include "case.h"
#include "driver.h"
#include <map>
#include <numeric>

__host__ __device__ inline unsigned mix(unsigned value) {
    value ^= value >> 16;
    value *= 0x7feb352du;
    value ^= value >> 15;
    value *= 0x846ca68bu;
    return value ^ value >> 16;
}

__global__ void fill(unsigned *data, int count, unsigned seed) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i] = mix(seed + i);
}

// Each element with its neighbour to the right, around the end.
__global__ void advance(const unsigned *in, unsigned *out, int count, unsigned factor) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = in[i] * factor + in[i + 1 < count ? i + 1 : 0];
}

// The sum of every sequence that the table names, a block each.
__global__ void sums(const unsigned *const *table, const int *counts, unsigned long long *results) {
    __shared__ unsigned long long partial[128];
    const unsigned *data = table[blockIdx.x];
    unsigned long long sum = 0;
    for (int i = threadIdx.x; i < counts[blockIdx.x]; i += blockDim.x) sum += data[i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) results[blockIdx.x] = partial[0];
}

// Addresses are reserved once; memory comes and goes at the end of what is
// mapped.
class Segment {
  public:
    explicit Segment(size_t chunks) : capacity_(chunks) {
        CHECK(cudaFree(nullptr));
        properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CHECK_DRIVER(DRIVER(cuMemGetAllocationGranularity)(&chunk_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        CHECK_DRIVER(DRIVER(cuMemAddressReserve)(&base_, capacity_ * chunk_, 0, 0, 0));
    }
    ~Segment() {
        shrink(0);
        CHECK_DRIVER(DRIVER(cuMemAddressFree)(base_, capacity_ * chunk_));
    }
    Segment(const Segment &) = delete;
    Segment &operator=(const Segment &) = delete;

    char *at(size_t offset) const { return reinterpret_cast<char *>(base_ + offset); }
    size_t mapped() const { return handles_.size() * chunk_; }

    void grow(size_t bytes) {
        while (mapped() < bytes) {
            if (handles_.size() == capacity_) std::exit(1);
            const CUdeviceptr place = base_ + mapped();
            CUmemGenericAllocationHandle handle;
            CHECK_DRIVER(DRIVER(cuMemCreate)(&handle, chunk_, &properties_, 0));
            CHECK_DRIVER(DRIVER(cuMemMap)(place, chunk_, 0, handle, 0));
            CUmemAccessDesc access = {};
            access.location = properties_.location;
            access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            CHECK_DRIVER(DRIVER(cuMemSetAccess)(place, chunk_, &access, 1));
            handles_.push_back(handle);
        }
    }

    // Nothing may be running that uses what goes.
    void shrink(size_t bytes) {
        while (mapped() >= bytes + chunk_) {
            CHECK_DRIVER(DRIVER(cuMemUnmap)(base_ + mapped() - chunk_, chunk_));
            CHECK_DRIVER(DRIVER(cuMemRelease)(handles_.back()));
            handles_.pop_back();
        }
    }

  private:
    size_t capacity_, chunk_ = 0;
    CUdeviceptr base_ = 0;
    CUmemAllocationProp properties_ = {};
    std::vector<CUmemGenericAllocationHandle> handles_;
};

// First fit over one segment; neighbours that are free are joined.
class Allocator {
  public:
    explicit Allocator(size_t chunks) : segment_(chunks) {}

    unsigned *take(int count) {
        const size_t bytes = (count * sizeof(unsigned) + 511) / 512 * 512;
        for (auto [offset, size] : free_) {
            if (size < bytes) continue;
            free_.erase(offset);
            if (size > bytes) free_[offset + bytes] = size - bytes;
            return used(offset, bytes);
        }
        // A free tail is grown, else new memory is put behind all.
        size_t start = end_;
        if (!free_.empty() && free_.rbegin()->first + free_.rbegin()->second == end_) {
            start = free_.rbegin()->first;
            free_.erase(start);
        }
        end_ = start + bytes;
        segment_.grow(end_);
        return used(start, bytes);
    }

    void give(unsigned *block) {
        const size_t offset = reinterpret_cast<char *>(block) - segment_.at(0);
        auto place = free_.emplace(offset, used_.at(offset)).first;
        used_.erase(offset);
        auto next = std::next(place);
        if (next != free_.end() && place->first + place->second == next->first) {
            place->second += next->second;
            free_.erase(next);
        }
        if (place != free_.begin()) {
            auto previous = std::prev(place);
            if (previous->first + previous->second == place->first) {
                previous->second += place->second;
                free_.erase(place);
            }
        }
    }

    // Gives memory back that no block uses. Nothing may be running.
    void trim() {
        if (!free_.empty() && free_.rbegin()->first + free_.rbegin()->second == end_) {
            end_ = free_.rbegin()->first;
            free_.erase(std::prev(free_.end()));
        }
        segment_.shrink(end_);
    }

  private:
    unsigned *used(size_t offset, size_t bytes) {
        used_[offset] = bytes;
        return reinterpret_cast<unsigned *>(segment_.at(offset));
    }

    Segment segment_;
    size_t end_ = 0;
    std::map<size_t, size_t> free_, used_;
};

struct Sequence {
    unsigned *data;
    std::vector<unsigned> expected;
    int count() const { return static_cast<int>(expected.size()); }
};

static dim3 blocks(int count) { return dim3((count + 127) / 128); }

static void advance_expected(std::vector<unsigned> &values, unsigned factor) {
    std::vector<unsigned> next(values.size());
    for (size_t i = 0; i < values.size(); i++) next[i] = values[i] * factor + values[(i + 1) % values.size()];
    values.swap(next);
}

int main() {
    constexpr int kRounds = 24, kMost = 96;
    Allocator allocator(64);
    cudaStream_t streams[2];
    cudaEvent_t events[2];
    for (int k = 0; k < 2; k++) {
        CHECK(cudaStreamCreateWithFlags(&streams[k], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&events[k], cudaEventDisableTiming));
    }
    // What the table says, page-locked so that copies are asynchronous.
    const unsigned **names;
    int *counts;
    unsigned long long *found;
    CHECK(cudaMallocHost(&names, kMost * sizeof *names));
    CHECK(cudaMallocHost(&counts, kMost * sizeof *counts));
    CHECK(cudaMallocHost(&found, kMost * sizeof *found));
    const unsigned **table;
    int *table_counts;
    CHECK(cudaMalloc(&table, kMost * sizeof *table));
    CHECK(cudaMalloc(&table_counts, kMost * sizeof *table_counts));

    // Captured once: two steps of the first sequence through a second block.
    Sequence first{allocator.take(5000), std::vector<unsigned>(5000)};
    unsigned *second = allocator.take(5000);
    fill<<<blocks(5000), 128, 0, streams[0]>>>(first.data, 5000, 7);
    for (int i = 0; i < 5000; i++) first.expected[i] = mix(7 + i);
    cudaGraph_t captured, made;
    cudaGraphExec_t replay, stepper;
    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
    advance<<<blocks(5000), 128, 0, streams[0]>>>(first.data, second, 5000, 3);
    advance<<<blocks(5000), 128, 0, streams[0]>>>(second, first.data, 5000, 5);
    CHECK(cudaStreamEndCapture(streams[0], &captured));
    CHECK(cudaGraphInstantiate(&replay, captured, 0));
    CHECK(cudaGraphDestroy(captured));

    // Made by hand: one step into a block that changes.
    int scratch_count = 5000;
    unsigned factor = 11, *scratch = allocator.take(scratch_count);
    void *arguments[] = {&first.data, &scratch, &scratch_count, &factor};
    cudaKernelNodeParams node = {};
    node.func = reinterpret_cast<void *>(advance);
    node.gridDim = blocks(scratch_count);
    node.blockDim = dim3(128);
    node.kernelParams = arguments;
    cudaGraphNode_t step;
    CHECK(cudaGraphCreate(&made, 0));
    CHECK(cudaGraphAddKernelNode(&step, made, nullptr, 0, &node));
    CHECK(cudaGraphInstantiate(&stepper, made, 0));

    std::vector<Sequence> live;
    unsigned random = 1;
    auto next = [&](int below) { return static_cast<int>((random = mix(random + 0x9e3779b9u)) % below); };
    int wrong = 0;
    for (int round = 0; round < kRounds; round++) {
        cudaStream_t stream = streams[round % 2];
        // New sequences; the segment may grow below kernels that run.
        for (int k = next(4) + 1; k > 0; k--) {
            const int count = 1000 + next(round == kRounds / 2 ? 400000 : 90000);
            Sequence sequence{allocator.take(count), std::vector<unsigned>(count)};
            fill<<<blocks(count), 128, 0, stream>>>(sequence.data, count, random);
            for (int i = 0; i < count; i++) sequence.expected[i] = mix(random + i);
            live.push_back(std::move(sequence));
        }
        // The latest takes a step through memory of the pool.
        Sequence &latest = live.back();
        unsigned *temporary;
        const size_t bytes = latest.count() * sizeof(unsigned);
        CHECK(cudaMallocAsync(&temporary, bytes, stream));
        advance<<<blocks(latest.count()), 128, 0, stream>>>(latest.data, temporary, latest.count(), 9);
        CHECK(cudaMemcpyAsync(latest.data, temporary, bytes, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaFreeAsync(temporary, stream));
        advance_expected(latest.expected, 9);
        // Graphs run in the first stream, where all else of theirs is.
        CHECK(cudaGraphLaunch(replay, streams[0]));
        advance_expected(first.expected, 3);
        advance_expected(first.expected, 5);
        CHECK(cudaGraphLaunch(stepper, streams[0]));

        if (round % 4 != 3) {
            // The other stream goes on after this one.
            CHECK(cudaEventRecord(events[round % 2], stream));
            CHECK(cudaStreamWaitEvent(streams[1 - round % 2], events[round % 2], 0));
            continue;
        }
        // All sequences are summed up, through the table.
        const int many = static_cast<int>(live.size());
        for (int k = 0; k < many; k++) names[k] = live[k].data, counts[k] = live[k].count();
        unsigned long long *results;
        CHECK(cudaMallocAsync(&results, many * sizeof *results, stream));
        CHECK(cudaMemcpyAsync(table, names, many * sizeof *names, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpyAsync(table_counts, counts, many * sizeof *counts, cudaMemcpyHostToDevice, stream));
        sums<<<many, 128, 0, stream>>>(table, table_counts, results);
        CHECK(cudaMemcpyAsync(found, results, many * sizeof *found, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(results, stream));
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        for (int k = 0; k < many; k++) {
            const auto &values = live[k].expected;
            wrong += found[k] != std::accumulate(values.begin(), values.end(), 0ull);
        }
        // Half of them go, the tail first in every second round.
        for (int k = many / 2; k > 0; k--) {
            const size_t which = round % 8 == 3 ? live.size() - 1 : next(static_cast<int>(live.size()));
            allocator.give(live[which].data);
            live.erase(live.begin() + which);
        }
        allocator.give(scratch);
        allocator.trim();
        scratch_count = 2000 + next(3000);
        scratch = allocator.take(scratch_count);
        node.gridDim = blocks(scratch_count);
        CHECK(cudaGraphExecKernelNodeSetParams(stepper, step, &node));
    }
    CHECK(cudaGraphLaunch(stepper, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
    std::vector<unsigned> host(scratch_count), expected = first.expected;
    CHECK(cudaMemcpy(host.data(), scratch, scratch_count * sizeof(unsigned), cudaMemcpyDeviceToHost));
    // Of a shorter sequence the last has the first as its neighbour.
    expected.resize(scratch_count);
    advance_expected(expected, factor);
    wrong += host != expected;
    CHECK(cudaMemcpy(host.data(), first.data, scratch_count * sizeof(unsigned), cudaMemcpyDeviceToHost));
    std::printf("%d wrong, %zu live, first %016llx\n", wrong, live.size(),
                digest_bytes(host.data(), scratch_count * sizeof(unsigned)));

    CHECK(cudaGraphExecDestroy(replay));
    CHECK(cudaGraphExecDestroy(stepper));
    CHECK(cudaGraphDestroy(made));
    for (const Sequence &sequence : live) allocator.give(sequence.data);
    for (unsigned *block : {first.data, second, scratch}) allocator.give(block);
    CHECK(cudaFree(table));
    CHECK(cudaFree(table_counts));
    CHECK(cudaFreeHost(names));
    CHECK(cudaFreeHost(counts));
    CHECK(cudaFreeHost(found));
    for (int k = 0; k < 2; k++) {
        CHECK(cudaStreamDestroy(streams[k]));
        CHECK(cudaEventDestroy(events[k]));
    }
    return wrong != 0;
}
