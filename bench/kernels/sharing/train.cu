// Small kernels with copies between: steps of training of two layers on batches
// that come from host memory, with the loss read back after each step.
#include "work.h"

// to[row][column] = activation(sum of from[row][k] * weights[k][column])
__global__ void forward(const float *from, const float *weights, float *to, int rows, int inner, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= columns || row >= rows) return;
    float sum = 0;
    for (int k = 0; k < inner; k++) sum += from[row * inner + k] * weights[k * columns + column];
    to[row * columns + column] = sum > 0 ? sum : 0.01f * sum;
}

// The error of the last layer, and its loss: one block, summed in a fixed order.
__global__ void compare(const float *out, const unsigned char *labels, float *error, float *loss, int rows,
                        int columns) {
    __shared__ float sums[256];
    float sum = 0;
    for (int i = threadIdx.x; i < rows * columns; i += blockDim.x) {
        float wanted = labels[i / columns] == i % columns ? 1.0f : 0.0f;
        error[i] = out[i] - wanted;
        sum += error[i] * error[i];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *loss = sums[0];
}

// error of the layer before: before[row][k] = sum of error[row][column] * weights[k][column]
__global__ void backward(const float *error, const float *weights, float *before, int rows, int inner, int columns) {
    int k = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (k >= inner || row >= rows) return;
    float sum = 0;
    for (int column = 0; column < columns; column++) sum += error[row * columns + column] * weights[k * columns + column];
    before[row * inner + k] = sum;
}

__global__ void update(const float *from, const float *error, float *weights, int rows, int inner, int columns,
                       float rate) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y;
    if (column >= columns || k >= inner) return;
    float sum = 0;
    for (int row = 0; row < rows; row++) sum += from[row * inner + k] * error[row * columns + column];
    weights[k * columns + column] -= rate * sum;
}

__global__ void fill_weights(float *weights, int count, unsigned seed, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) weights[i] = (number_of(i + seed) - 0.5f) * scale;
}

struct Train : Work {
    int batch, inputs, hidden, outputs, steps, batches;
    std::vector<float> images;
    std::vector<unsigned char> labels;
    float *in, *middle, *out, *first, *second, *error, *before, *loss;
    unsigned char *wanted;

    explicit Train(bool is_small)
        : batch(is_small ? 4 : 64), inputs(is_small ? 36 : 784), hidden(is_small ? 16 : 256), outputs(10),
          steps(is_small ? 2 : 32), batches(8) {
        images.resize(size_t(batches) * batch * inputs);
        labels.resize(size_t(batches) * batch);
        for (size_t i = 0; i < images.size(); i++) images[i] = number_of(unsigned(i));
        for (size_t i = 0; i < labels.size(); i++) labels[i] = (i * 7 + i / 10) % outputs;
        in = device_memory<float>(batch * inputs);
        middle = device_memory<float>(batch * hidden);
        out = device_memory<float>(batch * outputs);
        first = device_memory<float>(inputs * hidden);
        second = device_memory<float>(hidden * outputs);
        error = device_memory<float>(batch * outputs);
        before = device_memory<float>(batch * hidden);
        loss = device_memory<float>(1);
        wanted = device_memory<unsigned char>(batch);
        fill_weights<<<(inputs * hidden + 255) / 256, 256>>>(first, inputs * hidden, 5, 0.05f);
        fill_weights<<<(hidden * outputs + 255) / 256, 256>>>(second, hidden * outputs, 9, 0.05f);
        wait();
    }

    static dim3 grid(int columns, int rows) { return dim3((columns + 63) / 64, rows); }

    void step(int number) {
        const float *images_now = &images[size_t(number) * batch * inputs];
        CHECK(cudaMemcpy(in, images_now, batch * inputs * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(wanted, &labels[size_t(number) * batch], batch, cudaMemcpyHostToDevice));
        forward<<<grid(hidden, batch), 64>>>(in, first, middle, batch, inputs, hidden);
        forward<<<grid(outputs, batch), 64>>>(middle, second, out, batch, hidden, outputs);
        compare<<<1, 256>>>(out, wanted, error, loss, batch, outputs);
        backward<<<grid(hidden, batch), 64>>>(error, second, before, batch, hidden, outputs);
        update<<<grid(outputs, hidden), 64>>>(middle, error, second, batch, hidden, outputs, 1e-4f);
        update<<<grid(hidden, inputs), 64>>>(in, before, first, batch, inputs, hidden, 1e-4f);
        float now = 0;
        CHECK(cudaMemcpy(&now, loss, sizeof now, cudaMemcpyDeviceToHost));
        if (!(now >= 0 && now < 1e9f)) {
            std::fprintf(stderr, "the loss is %g\n", now);
            std::exit(1);
        }
    }

    void round() override {
        for (int i = 0; i < steps; i++) step(i % batches);
        wait();
    }

    uint64_t digest() override { return digest_of(first, size_t(inputs) * hidden); }
};

std::unique_ptr<Work> make_train(bool is_small) { return std::make_unique<Train>(is_small); }
