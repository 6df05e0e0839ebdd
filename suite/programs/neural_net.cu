// about: a small neural network trained with streams and a memory pool, then run in half precision on matrix units
// build: arch=80
//
// Classifies points of three interleaved spirals. Layers are C++ objects that
// own device memory from a stream-ordered pool; activations live only as long
// as a step. Forward and backward passes are tiled matrix products in shared
// memory, batches arrive from pinned memory on a second stream, double
// buffered and ordered by events. The trained weights are rounded to half
// precision and inference is repeated with warp matrix products (wmma). What
// is printed are counts with a margin, so that the order of float operations
// does not matter.
#include "case.h"
#include <algorithm>
#include <cmath>
#include <cuda_fp16.h>
#include <memory>
#include <mma.h>

namespace wmma = nvcuda::wmma;

constexpr int kTile = 16;
constexpr int kInputs = 16;
constexpr int kHidden = 64;
constexpr int kOutputs = 16;  // three classes, padded to a tile
constexpr int kClasses = 3;
constexpr int kBatch = 96;

enum class Transpose { None, Left, Right };

__device__ float relu(float x) { return x > 0 ? x : 0; }

// c (m x n) = a (m x k) * b (k x n), either operand stored transposed; all
// sizes are checked against the tile's edge. An epilogue adds a bias.
template <Transpose Which, bool Bias, bool Relu>
__global__ void matmul(int m, int n, int k, const float *a, const float *b, const float *bias, float *c) {
    __shared__ float left[kTile][kTile + 1], right[kTile][kTile + 1];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
    float sum = 0;
    for (int step = 0; step < k; step += kTile) {
        if constexpr (Which == Transpose::Left) {
            const int at = step + y, from = blockIdx.y * kTile + x;
            left[x][y] = at < k && from < m ? a[at * m + from] : 0;
        } else {
            left[y][x] = row < m && step + x < k ? a[row * k + step + x] : 0;
        }
        if constexpr (Which == Transpose::Right) {
            const int at = step + x, from = blockIdx.x * kTile + y;
            right[x][y] = at < k && from < n ? b[from * k + at] : 0;
        } else {
            right[y][x] = step + y < k && column < n ? b[(step + y) * n + column] : 0;
        }
        __syncthreads();
        for (int i = 0; i < kTile; i++) sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    if (row >= m || column >= n) return;
    if (Bias) sum += bias[column];
    c[row * n + column] = Relu ? relu(sum) : sum;
}

// Softmax and its gradient, one warp a sample; the loss of the batch is summed
// in fixed point.
__global__ void softmax_loss(int samples, const float *logits, const int *labels, float *gradient,
                             unsigned long long *loss) {
    const int sample = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (sample >= samples) return;
    const bool active = lane < kClasses;
    float value = active ? logits[sample * kOutputs + lane] : -1e30f, top = value;
    for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
    const float power = active ? __expf(value - top) : 0;
    float sum = power;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    const float probability = power / sum;
    const bool right = lane == labels[sample];
    if (lane < kOutputs) gradient[sample * kOutputs + lane] = active ? (probability - right) / samples : 0;
    if (right) atomicAdd(loss, static_cast<unsigned long long>(-__logf(fmaxf(probability, 1e-6f)) * 65536));
}

__global__ void relu_gradient(int count, const float *activation, float *gradient) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && activation[i] <= 0) gradient[i] = 0;
}

__global__ void column_sums(int rows, int columns, const float *matrix, float *sums) {
    extern __shared__ float partial[];
    const int column = blockIdx.x;
    float sum = 0;
    for (int row = threadIdx.x; row < rows; row += blockDim.x) sum += matrix[row * columns + column];
    partial[threadIdx.x] = sum;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    if (threadIdx.x == 0) sums[column] = partial[0];
}

// Gradient descent with momentum.
__global__ void update(int count, float rate, const float *gradient, float *velocity, float *weights) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        velocity[i] = 0.9f * velocity[i] - rate * gradient[i];
        weights[i] += velocity[i];
    }
}

__global__ void to_half(int count, const float *from, __half *to) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 2;
    if (i + 1 < count)
        *reinterpret_cast<__half2 *>(to + i) = __floats2half2_rn(from[i], from[i + 1]);
    else if (i < count)
        to[i] = __float2half_rn(from[i]);
}

// One warp a 16 x 16 tile of the result; bias and activation pass through
// shared memory, as fragments do not say which element a lane holds.
template <bool Relu>
__global__ void matmul_half(int n, int k, const __half *a, const __half *b, const float *bias, __half *c) {
    __shared__ __align__(32) float tile[kTile * kTile];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    const int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
    for (int step = 0; step < k; step += kTile) {
        wmma::load_matrix_sync(left, a + row * k + step, k);
        wmma::load_matrix_sync(right, b + step * n + column, n);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(tile, sum, kTile, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < kTile * kTile; i += 32) {
        const float value = tile[i] + bias[column + i % kTile];
        c[(row + i / kTile) * n + column + i % kTile] = __float2half_rn(Relu ? relu(value) : value);
    }
}

__global__ void classify(int samples, const __half *logits, const int *labels, int *right) {
    const int sample = blockIdx.x * blockDim.x + threadIdx.x;
    int best = 0;
    if (sample < samples) {
        for (int c = 1; c < kClasses; c++)
            if (__hgt(logits[sample * kOutputs + c], logits[sample * kOutputs + best])) best = c;
    }
    const unsigned hits = __ballot_sync(~0u, sample < samples && best == labels[sample]);
    if ((threadIdx.x & 31) == 0) atomicAdd(right, __popc(hits));
}

// ---------------------------------------------------------------------- host

// Memory of a stream's pool, for as long as the object lives.
template <typename T>
class Pooled {
  public:
    Pooled(size_t count, cudaStream_t stream) : count_(count), stream_(stream) {
        CHECK(cudaMallocAsync(&data_, count * sizeof(T), stream));
    }
    ~Pooled() { CHECK(cudaFreeAsync(data_, stream_)); }
    Pooled(const Pooled &) = delete;
    Pooled &operator=(const Pooled &) = delete;
    void clear() { CHECK(cudaMemsetAsync(data_, 0, count_ * sizeof(T), stream_)); }
    operator T *() const { return data_; }
    int count() const { return static_cast<int>(count_); }

  private:
    T *data_ = nullptr;
    size_t count_;
    cudaStream_t stream_;
};

dim3 tiles(int columns, int rows) { return dim3((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile); }

// What the network holds a list of.
class Layer {
  public:
    virtual ~Layer() = default;
    virtual int outputs() const = 0;
    virtual void forward(int samples, const float *in, float *out, cudaStream_t stream) = 0;
    // Consumes the gradient of the output; writes that of the input unless null.
    virtual void backward(int samples, const float *in, const float *out, float *out_gradient, float *in_gradient,
                          float rate, cudaStream_t stream) = 0;
    virtual void infer(int samples, const __half *in, __half *out, cudaStream_t stream) = 0;
};

template <bool Relu>
class Dense : public Layer {
  public:
    Dense(int inputs, int outputs, unsigned &seed, cudaStream_t stream)
        : inputs_(inputs), outputs_(outputs), weights_(inputs * outputs, stream), bias_(outputs, stream),
          weight_velocity_(inputs * outputs, stream), bias_velocity_(outputs, stream) {
        std::vector<float> start(inputs * outputs);
        for (float &weight : start) {
            seed = seed * 1664525u + 1013904223u;
            weight = (static_cast<float>(seed >> 8) / (1 << 23) - 1) * std::sqrt(3.0f / inputs);
        }
        CHECK(cudaMemcpyAsync(weights_, start.data(), start.size() * sizeof(float), cudaMemcpyHostToDevice, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (Pooled<float> *part : {&bias_, &weight_velocity_, &bias_velocity_}) part->clear();
    }

    int outputs() const override { return outputs_; }

    void forward(int samples, const float *in, float *out, cudaStream_t stream) override {
        matmul<Transpose::None, true, Relu><<<tiles(outputs_, samples), dim3(kTile, kTile), 0, stream>>>(
            samples, outputs_, inputs_, in, weights_, bias_, out);
    }

    void backward(int samples, const float *in, const float *out, float *out_gradient, float *in_gradient, float rate,
                  cudaStream_t stream) override {
        const int count = samples * outputs_;
        if (Relu) relu_gradient<<<(count + 127) / 128, 128, 0, stream>>>(count, out, out_gradient);
        Pooled<float> weight_gradient(inputs_ * outputs_, stream), bias_gradient(outputs_, stream);
        const dim3 threads(kTile, kTile);
        matmul<Transpose::Left, false, false><<<tiles(outputs_, inputs_), threads, 0, stream>>>(
            inputs_, outputs_, samples, in, out_gradient, nullptr, weight_gradient);
        column_sums<<<outputs_, 64, 64 * sizeof(float), stream>>>(samples, outputs_, out_gradient, bias_gradient);
        if (in_gradient)
            matmul<Transpose::Right, false, false><<<tiles(inputs_, samples), threads, 0, stream>>>(
                samples, inputs_, outputs_, out_gradient, weights_, nullptr, in_gradient);
        update<<<4, 128, 0, stream>>>(weights_.count(), rate, weight_gradient, weight_velocity_, weights_);
        update<<<1, 128, 0, stream>>>(outputs_, rate, bias_gradient, bias_velocity_, bias_);
    }

    void infer(int samples, const __half *in, __half *out, cudaStream_t stream) override {
        Pooled<__half> weights(weights_.count(), stream);
        to_half<<<(weights_.count() / 2 + 127) / 128, 128, 0, stream>>>(weights_.count(), weights_, weights);
        matmul_half<Relu><<<dim3(outputs_ / kTile, samples / kTile), 32, 0, stream>>>(outputs_, inputs_, in, weights,
                                                                                    bias_, out);
    }

  private:
    int inputs_, outputs_;
    Pooled<float> weights_, bias_, weight_velocity_, bias_velocity_;
};

// Points of three spirals, their coordinates expanded into smooth features.
struct Samples {
    std::vector<float> features;
    std::vector<int> labels;

    explicit Samples(int count) : features(count * kInputs, 0.0f), labels(count) {
        for (int i = 0; i < count; i++) {
            labels[i] = i % kClasses;
            const float t = (i * 37 % count) / static_cast<float>(count);
            const float radius = 0.15f + t, angle = 4 * t + labels[i] * 2.0943951f;
            const float x = radius * std::cos(angle), y = radius * std::sin(angle);
            float *row = &features[i * kInputs];
            row[0] = x;
            row[1] = y;
            for (int f = 0; f < 3; f++) {
                row[2 + 4 * f] = std::sin((f + 1) * 1.5f * x);
                row[3 + 4 * f] = std::cos((f + 1) * 1.5f * x);
                row[4 + 4 * f] = std::sin((f + 1) * 1.5f * y);
                row[5 + 4 * f] = std::cos((f + 1) * 1.5f * y);
            }
        }
    }
};

class Network {
  public:
    explicit Network(cudaStream_t stream) : stream_(stream) {
        unsigned seed = 20240607;
        layers_.push_back(std::make_unique<Dense<true>>(kInputs, kHidden, seed, stream));
        layers_.push_back(std::make_unique<Dense<true>>(kHidden, kHidden, seed, stream));
        layers_.push_back(std::make_unique<Dense<false>>(kHidden, kOutputs, seed, stream));
    }

    void train(const float *batch, const int *labels, float rate, unsigned long long *loss) {
        std::vector<std::unique_ptr<Pooled<float>>> values;
        const float *in = batch;
        for (auto &layer : layers_) {
            values.push_back(std::make_unique<Pooled<float>>(kBatch * layer->outputs(), stream_));
            layer->forward(kBatch, in, *values.back(), stream_);
            in = *values.back();
        }
        auto gradient = std::make_unique<Pooled<float>>(kBatch * kOutputs, stream_);
        softmax_loss<<<(kBatch * 32 + 127) / 128, 128, 0, stream_>>>(kBatch, in, labels, *gradient, loss);
        for (int at = static_cast<int>(layers_.size()) - 1; at >= 0; at--) {
            const float *input = at ? *values[at - 1] : batch;
            std::unique_ptr<Pooled<float>> next;
            if (at) next = std::make_unique<Pooled<float>>(kBatch * layers_[at - 1]->outputs(), stream_);
            layers_[at]->backward(kBatch, input, *values[at], *gradient, next ? static_cast<float *>(*next) : nullptr,
                                  rate, stream_);
            gradient = std::move(next);
        }
    }

    // Predictions in half precision; `samples` is a multiple of the tile.
    int correct(int samples, const float *features, const int *labels) {
        Pooled<__half> input(samples * kInputs, stream_);
        to_half<<<(samples * kInputs / 2 + 127) / 128, 128, 0, stream_>>>(samples * kInputs, features, input);
        std::unique_ptr<Pooled<__half>> last;
        const __half *in = input;
        for (auto &layer : layers_) {
            auto out = std::make_unique<Pooled<__half>>(samples * layer->outputs(), stream_);
            layer->infer(samples, in, *out, stream_);
            last = std::move(out);
            in = *last;
        }
        Pooled<int> right(1, stream_);
        right.clear();
        classify<<<(samples + 127) / 128, 128, 0, stream_>>>(samples, in, labels, right);
        int answer = 0;
        CHECK(cudaMemcpyAsync(&answer, right, sizeof(int), cudaMemcpyDeviceToHost, stream_));
        CHECK(cudaStreamSynchronize(stream_));
        return answer;
    }

  private:
    cudaStream_t stream_;
    std::vector<std::unique_ptr<Layer>> layers_;
};

int main() {
    constexpr int batches = 6, epochs = 7, count = batches * kBatch;
    const Samples samples(count);
    cudaStream_t compute, copy;
    CHECK(cudaStreamCreate(&compute));
    CHECK(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking));
    int failed = 0;
    {
        float *pinned, *features[2];
        int *labels[2];
        CHECK(cudaMallocHost(&pinned, count * kInputs * sizeof(float)));
        std::copy(samples.features.begin(), samples.features.end(), pinned);
        cudaEvent_t arrived[2], used[2];
        for (int i = 0; i < 2; i++) {
            CHECK(cudaMalloc(&features[i], kBatch * kInputs * sizeof(float)));
            CHECK(cudaMalloc(&labels[i], kBatch * sizeof(int)));
            CHECK(cudaEventCreateWithFlags(&arrived[i], cudaEventDisableTiming));
            CHECK(cudaEventCreateWithFlags(&used[i], cudaEventDisableTiming));
        }
        unsigned long long *loss = zeroed<unsigned long long>(epochs);
        Network network(compute);
        for (int step = 0; step < epochs * batches; step++) {
            const int slot = step % 2, from = step % batches * kBatch;
            CHECK(cudaStreamWaitEvent(copy, used[slot], 0));
            CHECK(cudaMemcpyAsync(features[slot], pinned + from * kInputs, kBatch * kInputs * sizeof(float),
                                  cudaMemcpyHostToDevice, copy));
            CHECK(cudaMemcpyAsync(labels[slot], &samples.labels[from], kBatch * sizeof(int), cudaMemcpyHostToDevice,
                                  copy));
            CHECK(cudaEventRecord(arrived[slot], copy));
            CHECK(cudaStreamWaitEvent(compute, arrived[slot], 0));
            network.train(features[slot], labels[slot], 0.05f, loss + step / batches);
            CHECK(cudaEventRecord(used[slot], compute));
        }
        std::vector<unsigned long long> losses(epochs);
        CHECK(cudaStreamSynchronize(compute));
        CHECK(cudaMemcpy(losses.data(), loss, epochs * sizeof(losses[0]), cudaMemcpyDeviceToHost));
        float *all = upload(samples.features);
        int *all_labels = upload(samples.labels);
        const int right = network.correct(count, all, all_labels);
        const bool fell = losses.back() * 4 < losses.front();
        const bool learned = right * 100 >= count * 90;
        std::printf("the loss %s, %s of the samples are right\n", fell ? "fell" : "DID NOT FALL",
                    learned ? "at least 90 %" : "LESS THAN 90 %");
        std::fprintf(stderr, "loss %.3f to %.3f, %d of %d right\n", losses.front() / 65536.0 / count,
                     losses.back() / 65536.0 / count, right, count);
        failed = !fell || !learned;
        for (int i = 0; i < 2; i++) {
            CHECK(cudaFree(features[i]));
            CHECK(cudaFree(labels[i]));
            CHECK(cudaEventDestroy(arrived[i]));
            CHECK(cudaEventDestroy(used[i]));
        }
        CHECK(cudaFree(loss));
        CHECK(cudaFree(all));
        CHECK(cudaFree(all_labels));
        CHECK(cudaFreeHost(pinned));
    }
    FINISH();
    CHECK(cudaStreamDestroy(copy));
    CHECK(cudaStreamDestroy(compute));
    return failed;
}
