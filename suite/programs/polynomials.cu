// about: products of polynomials by number-theoretic transforms, with asynchronous copies into pipelined shared memory
// build: arch=80
//
// Multiplies polynomials modulo a prime, exactly: a four-step transform whose
// columns and rows are short transforms in shared memory, pointwise products,
// and the way back. Data reaches shared memory by cp.async in a pipeline of
// stages (the __pipeline primitives), by cuda::pipeline with producer and
// consumer warps, and by cooperative_groups::memcpy_async. A checksum of the
// product is computed by evaluating it at a point, in chunks, by all three.
#include "case.h"
#include <algorithm>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cstdint>
#include <cuda/pipeline>
#include <cuda_pipeline.h>

// The state of a pipeline has a constructor, which init() replaces.
#pragma nv_diag_suppress static_var_with_dynamic_init

namespace cg = cooperative_groups;

constexpr uint32_t kPrime = 998244353;  // 119 * 2^23 + 1, with 3 as a root
constexpr int kRadix = 64;              // length of a short transform
constexpr int kLength = kRadix * kRadix;

__host__ __device__ inline uint32_t add(uint32_t a, uint32_t b) { return a + b >= kPrime ? a + b - kPrime : a + b; }
__host__ __device__ inline uint32_t sub(uint32_t a, uint32_t b) { return a >= b ? a - b : a + kPrime - b; }
__host__ __device__ inline uint32_t mul(uint32_t a, uint32_t b) {
    return static_cast<uint32_t>(static_cast<uint64_t>(a) * b % kPrime);
}
__host__ __device__ inline uint32_t power(uint32_t base, uint64_t exponent) {
    uint32_t result = 1;
    for (; exponent; exponent /= 2, base = mul(base, base))
        if (exponent & 1) result = mul(result, base);
    return result;
}

// Roots of unity of order kRadix, forward and back.
__constant__ uint32_t roots[2][kRadix];

// ----------------------------------------------------------- short transforms

// Transforms rows of shared memory in place, kRadix / 2 threads a row.
__device__ void short_transform(uint32_t *row, int lane, int direction) {
    for (int i = lane; i < kRadix; i += kRadix / 2) {
        const int mirrored = __brev(i) >> 26;
        if (i < mirrored) {
            const uint32_t value = row[i];
            row[i] = row[mirrored];
            row[mirrored] = value;
        }
    }
    __syncwarp();
    for (int half = 1; half < kRadix; half *= 2) {
        const int position = lane % half, low = lane / half * 2 * half + position;
        const uint32_t a = row[low], b = mul(row[low + half], roots[direction][position * (kRadix / 2 / half)]);
        __syncwarp();
        row[low] = add(a, b);
        row[low + half] = sub(a, b);
        __syncwarp();
    }
}

// One step of the four: each warp transforms one column of the matrix,
// multiplies by the twiddle factors, and writes it as a row.
template <bool Twiddle>
__global__ void transform_columns(const uint32_t *in, uint32_t *out, const uint32_t *twiddles, int direction) {
    constexpr int kColumns = 4;
    __shared__ uint32_t tile[kColumns][kRadix + 1];
    const int first = blockIdx.x * kColumns, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t *matrix = in + static_cast<size_t>(blockIdx.y) * kLength;
    // Four neighbouring columns: 4-byte copies, each thread its own.
    for (int i = threadIdx.x; i < kColumns * kRadix; i += blockDim.x)
        __pipeline_memcpy_async(&tile[i % kColumns][i / kColumns], &matrix[i / kColumns * kRadix + first + i % kColumns],
                                sizeof(uint32_t));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    short_transform(tile[warp], lane, direction);
    uint32_t *row = out + static_cast<size_t>(blockIdx.y) * kLength + (first + warp) * kRadix;
    for (int i = lane; i < kRadix; i += 32) {
        const uint32_t value = tile[warp][i];
        row[i] = Twiddle ? mul(value, twiddles[(first + warp) * kRadix + i]) : value;
    }
}

__global__ void transpose(const uint32_t *in, uint32_t *out) {
    __shared__ uint32_t tile[32][33];
    const size_t base = static_cast<size_t>(blockIdx.z) * kLength;
    for (int i = threadIdx.y; i < 32; i += blockDim.y)
        tile[i][threadIdx.x] = in[base + (blockIdx.y * 32 + i) * kRadix + blockIdx.x * 32 + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += blockDim.y)
        out[base + (blockIdx.x * 32 + i) * kRadix + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][i];
}

// a *= b, four elements a copy, two stages in flight.
__global__ void multiply(uint4 *a, const uint4 *b, int count, uint32_t scale) {
    constexpr int kStages = 2, kBlock = 64;
    __shared__ uint4 left[kStages][kBlock], right[kStages][kBlock];
    const int stride = gridDim.x * kBlock, first = blockIdx.x * kBlock + threadIdx.x;
    auto fetch = [&](int at, int stage) {
        if (at < count) {
            __pipeline_memcpy_async(&left[stage][threadIdx.x], &a[at], sizeof(uint4));
            __pipeline_memcpy_async(&right[stage][threadIdx.x], &b[at], sizeof(uint4));
        }
        __pipeline_commit();
    };
    fetch(first, 0);
    int stage = 0;
    for (int at = first; at < count; at += stride, stage ^= 1) {
        fetch(at + stride, stage ^ 1);
        __pipeline_wait_prior(1);
        const uint4 x = left[stage][threadIdx.x], y = right[stage][threadIdx.x];
        a[at] = make_uint4(mul(mul(x.x, y.x), scale), mul(mul(x.y, y.y), scale), mul(mul(x.z, y.z), scale),
                           mul(mul(x.w, y.w), scale));
    }
    __pipeline_wait_prior(0);
}

// ------------------------------------------------------- evaluation, two ways

// Sum of p[i] x^i over a chunk; `powers` holds x^0 .. x^(Chunk-1).
constexpr int kChunk = 256;

__device__ uint32_t warp_total(uint32_t value) {
    for (int offset = 16; offset > 0; offset /= 2) value = add(value, __shfl_xor_sync(~0u, value, offset));
    return value;
}

// Warp 0 loads chunks, the others add them up, with a cuda::pipeline between.
__global__ void evaluate_roles(const uint32_t *p, int chunks, const uint32_t *powers, uint32_t *sums) {
    constexpr int kStages = 3, kConsumers = 64;
    extern __shared__ uint32_t stages[];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
    __shared__ uint32_t partial[kConsumers / 32];
    cg::thread_block block = cg::this_thread_block();
    const auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipeline = cuda::make_pipeline(block, &state, role);
    uint32_t value = 0;
    for (int chunk = blockIdx.x, turn = 0; chunk < chunks; chunk += gridDim.x, turn++) {
        uint32_t *stage = stages + turn % kStages * kChunk;
        if (role == cuda::pipeline_role::producer) {
            pipeline.producer_acquire();
            for (int i = threadIdx.x * 4; i < kChunk; i += 128)
                cuda::memcpy_async(stage + i, p + chunk * kChunk + i, cuda::aligned_size_t<16>(16), pipeline);
            pipeline.producer_commit();
        } else {
            pipeline.consumer_wait();
            const uint32_t shift = power(powers[1], static_cast<uint64_t>(chunk) * kChunk);
            uint32_t sum = 0;
            for (int i = threadIdx.x - 32; i < kChunk; i += kConsumers) sum = add(sum, mul(stage[i], powers[i]));
            value = add(value, mul(sum, shift));
            pipeline.consumer_release();
        }
    }
    if (role == cuda::pipeline_role::consumer) {
        value = warp_total(value);
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32 - 1] = value;
    }
    block.sync();
    if (threadIdx.x == 0) sums[blockIdx.x] = add(partial[0], partial[1]);
}

// The whole block copies and computes, one chunk ahead.
__global__ void evaluate_group(const uint32_t *p, int chunks, const uint32_t *powers, uint32_t *sums) {
    __shared__ __align__(16) uint32_t buffers[2][kChunk];
    __shared__ uint32_t partial[4];
    cg::thread_block block = cg::this_thread_block();
    uint32_t value = 0;
    int turn = 0;
    if (static_cast<int>(blockIdx.x) < chunks) cg::memcpy_async(block, buffers[0], p + blockIdx.x * kChunk, sizeof(buffers[0]));
    for (int chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x, turn ^= 1) {
        if (chunk + static_cast<int>(gridDim.x) < chunks) {
            cg::memcpy_async(block, buffers[turn ^ 1], p + (chunk + gridDim.x) * kChunk, sizeof(buffers[0]));
            cg::wait_prior<1>(block);
        } else {
            cg::wait(block);
        }
        const uint32_t shift = power(powers[1], static_cast<uint64_t>(chunk) * kChunk);
        uint32_t sum = 0;
        for (int i = threadIdx.x; i < kChunk; i += blockDim.x) sum = add(sum, mul(buffers[turn][i], powers[i]));
        value = add(value, mul(sum, shift));
        block.sync();
    }
    value = warp_total(value);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    block.sync();
    if (threadIdx.x == 0) sums[blockIdx.x] = add(add(partial[0], partial[1]), add(partial[2], partial[3]));
}

// ---------------------------------------------------------------------- host

using Polynomial = std::vector<uint32_t>;

class Transformer {
  public:
    Transformer() {
        const uint32_t root = power(3, (kPrime - 1) / kRadix), whole = power(3, (kPrime - 1) / kLength);
        uint32_t tables[2][kRadix];
        std::vector<uint32_t> forward(kLength), back(kLength);
        for (int i = 0; i < kRadix; i++) {
            tables[0][i] = power(root, i);
            tables[1][i] = power(root, kRadix - i);
        }
        for (int i = 0; i < kLength; i++) {
            const uint64_t exponent = static_cast<uint64_t>(i / kRadix) * (i % kRadix);
            forward[i] = power(whole, exponent);
            back[i] = power(whole, (kLength - exponent % kLength));
        }
        CHECK(cudaMemcpyToSymbol(roots, tables, sizeof(tables)));
        twiddles_[0] = upload(forward);
        twiddles_[1] = upload(back);
        for (uint32_t *&scratch : scratch_) scratch = zeroed<uint32_t>(2 * kLength);
    }
    ~Transformer() {
        for (uint32_t *memory : {twiddles_[0], twiddles_[1], scratch_[0], scratch_[1]}) CHECK(cudaFree(memory));
    }

    // Transforms `count` polynomials in place.
    void run(uint32_t *data, int count, int direction, cudaStream_t stream) {
        const dim3 columns(kRadix / 4, count), tiles(kRadix / 32, kRadix / 32, count), threads(32, 8);
        transform_columns<true><<<columns, 128, 0, stream>>>(data, scratch_[0], twiddles_[direction], direction);
        // The rows of the result hold what were columns; the second short
        // transform runs over its columns, and the last transposition puts
        // the elements in order.
        transform_columns<false><<<columns, 128, 0, stream>>>(scratch_[0], scratch_[1], nullptr, direction);
        transpose<<<tiles, threads, 0, stream>>>(scratch_[1], data);
    }

  private:
    uint32_t *twiddles_[2], *scratch_[2];
};

uint32_t evaluate(const Polynomial &p, uint32_t x) {
    uint32_t value = 0;
    for (size_t i = p.size(); i-- > 0;) value = add(mul(value, x), p[i]);
    return value;
}

int main() {
    Transformer transformer;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int wrong = 0;
    const int sizes[][2] = {{2048, 2048}, {4000, 97}, {1, 4096}, {33, 65}};
    for (auto [first, second] : sizes) {
        Polynomial both(2 * kLength, 0), a(first), b(second), expected(kLength, 0);
        for (int i = 0; i < first; i++) both[i] = a[i] = (i * 2654435761u + 12345) % kPrime;
        for (int i = 0; i < second; i++) both[kLength + i] = b[i] = (i * 40503u + 77) % kPrime;
        for (int i = 0; i < first; i++)
            for (int j = 0; j < second; j++) expected[i + j] = add(expected[i + j], mul(a[i], b[j]));
        uint32_t *data;
        CHECK(cudaMallocAsync(&data, both.size() * sizeof(uint32_t), stream));
        CHECK(cudaMemcpyAsync(data, both.data(), both.size() * sizeof(uint32_t), cudaMemcpyHostToDevice, stream));
        transformer.run(data, 2, 0, stream);
        multiply<<<5, 64, 0, stream>>>(reinterpret_cast<uint4 *>(data), reinterpret_cast<const uint4 *>(data + kLength),
                                       kLength / 4, power(kLength, kPrime - 2));
        transformer.run(data, 1, 1, stream);

        const uint32_t x = 1234567 + first;
        std::vector<uint32_t> powers(kChunk, 1), product(kLength), sums(8);
        for (int i = 1; i < kChunk; i++) powers[i] = mul(powers[i - 1], x);
        uint32_t *device_powers = upload(powers), *device_sums = zeroed<uint32_t>(8);
        evaluate_roles<<<3, 96, 3 * kChunk * sizeof(uint32_t), stream>>>(data, kLength / kChunk, device_powers, device_sums);
        evaluate_group<<<5, 128, 0, stream>>>(data, kLength / kChunk, device_powers, device_sums + 3);
        CHECK(cudaMemcpyAsync(product.data(), data, kLength * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaMemcpyAsync(sums.data(), device_sums, sums.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(data, stream));
        CHECK(cudaStreamSynchronize(stream));
        uint32_t by_roles = 0, by_group = 0;
        for (int i = 0; i < 8; i++) (i < 3 ? by_roles : by_group) = add(i < 3 ? by_roles : by_group, sums[i]);
        const uint32_t value = mul(evaluate(a, x), evaluate(b, x));
        const bool right = product == expected && by_roles == value && by_group == value;
        std::printf("%d x %d terms: product %016llx, value %u, %s\n", first, second,
                    digest_bytes(product.data(), product.size() * sizeof(uint32_t)), by_group, right ? "right" : "WRONG");
        wrong += !right;
        CHECK(cudaFree(device_powers));
        CHECK(cudaFree(device_sums));
    }
    CHECK(cudaStreamDestroy(stream));
    return wrong;
}
