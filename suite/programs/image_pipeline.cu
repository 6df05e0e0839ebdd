// about: an image pipeline in a hand-made graph: equalization, separable convolution, median, edges
//
// Works on 8-bit images in pitched memory. Filter taps lie in constant memory,
// tiles with their halo in shared memory, the median's window in a local array
// that is sorted in place. The stages are the nodes of a graph that is built
// node by node, run for one image, and then changed for the next by setting
// the parameters of its nodes. All arithmetic is on integers.
#include "case.h"
#include <algorithm>
#include <cstdint>
#include <tuple>

constexpr int kTileX = 32, kTileY = 8;
constexpr int kMaxRadius = 4;

struct Image {
    uint8_t *pixels;
    size_t pitch;
    int width, height;

    __host__ __device__ uint8_t &at(int x, int y) const { return pixels[y * pitch + x]; }
    __device__ uint8_t clamped(int x, int y) const {
        return at(min(max(x, 0), width - 1), min(max(y, 0), height - 1));
    }
};

struct Filter {
    int radius;
    int shift;
    int taps[2 * kMaxRadius + 1];
};

__constant__ Filter filters[2];

// ------------------------------------------------------------------- kernels

// A histogram for each warp in shared memory, added up at the end.
__global__ void histogram(Image image, unsigned *bins) {
    extern __shared__ unsigned counts[];
    const int warps = blockDim.x / 32;
    for (int i = threadIdx.x; i < 256 * warps; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    unsigned *mine = counts + threadIdx.x / 32 * 256;
    for (int y = blockIdx.x; y < image.height; y += gridDim.x)
        for (int x = threadIdx.x; x < image.width; x += blockDim.x) atomicAdd(&mine[image.at(x, y)], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) {
        unsigned sum = 0;
        for (int warp = 0; warp < warps; warp++) sum += counts[warp * 256 + bin];
        if (sum) atomicAdd(&bins[bin], sum);
    }
}

// 256 threads turn the histogram into a table of new values.
__global__ void equalization_table(const unsigned *bins, int pixels, uint8_t *table) {
    __shared__ unsigned sums[2][256];
    __shared__ unsigned lowest;
    const int i = threadIdx.x;
    if (i == 0) lowest = 0xffffffffu;
    sums[0][i] = bins[i];
    int from = 0;
    for (int distance = 1; distance < 256; distance *= 2, from ^= 1) {
        __syncthreads();
        sums[from ^ 1][i] = sums[from][i] + (i >= distance ? sums[from][i - distance] : 0);
    }
    __syncthreads();
    const unsigned sum = sums[from][i];
    if (sum) atomicMin(&lowest, sum);
    __syncthreads();
    const unsigned range = max(pixels - lowest, 1u);
    table[i] = sum ? static_cast<uint8_t>(((sum - lowest) * 255ull + range / 2) / range) : 0;
}

// Four pixels a thread where the row allows.
__global__ void apply_table(Image in, const uint8_t *table, Image out) {
    __shared__ uint8_t local[256];
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < 256; i += blockDim.x * blockDim.y) local[i] = table[i];
    __syncthreads();
    const int x = (blockIdx.x * blockDim.x + threadIdx.x) * 4, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (y >= in.height) return;
    if (x + 3 < in.width) {
        const uchar4 four = *reinterpret_cast<const uchar4 *>(&in.at(x, y));
        *reinterpret_cast<uchar4 *>(&out.at(x, y)) =
            make_uchar4(local[four.x], local[four.y], local[four.z], local[four.w]);
    } else {
        for (int i = x; i < in.width; i++) out.at(i, y) = local[in.at(i, y)];
    }
}

// A row or a column filter; the tile carries a halo at both ends.
template <bool Rows>
__global__ void convolve(Image in, int which, Image out) {
    __shared__ uint8_t tile[Rows ? kTileY : kTileY + 2 * kMaxRadius][Rows ? kTileX + 2 * kMaxRadius : kTileX];
    const Filter &filter = filters[which];
    const int radius = filter.radius, along = (Rows ? kTileX : kTileY);
    const int x0 = blockIdx.x * kTileX, y0 = blockIdx.y * kTileY;
    const int mine = Rows ? threadIdx.x : threadIdx.y;
    for (int i = mine; i < along + 2 * radius; i += along) {
        if (Rows)
            tile[threadIdx.y][i] = in.clamped(x0 + i - radius, y0 + threadIdx.y);
        else
            tile[i][threadIdx.x] = in.clamped(x0 + threadIdx.x, y0 + i - radius);
    }
    __syncthreads();
    const int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
    if (x >= in.width || y >= in.height) return;
    int sum = 1 << (filter.shift - 1);
    for (int tap = 0; tap <= 2 * radius; tap++) {
        const int pixel = Rows ? tile[threadIdx.y][threadIdx.x + tap] : tile[threadIdx.y + tap][threadIdx.x];
        sum += filter.taps[tap] * pixel;
    }
    out.at(x, y) = static_cast<uint8_t>(min(max(sum >> filter.shift, 0), 255));
}

__device__ __noinline__ void insertion_sort(uint8_t *values, int count) {
    for (int i = 1; i < count; i++) {
        const uint8_t value = values[i];
        int at = i;
        for (; at > 0 && values[at - 1] > value; at--) values[at] = values[at - 1];
        values[at] = value;
    }
}

__global__ void median(Image in, int radius, Image out) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= in.width || y >= in.height) return;
    uint8_t window[25];
    int count = 0;
    for (int dy = -radius; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++)
            if (unsigned(x + dx) < unsigned(in.width) && unsigned(y + dy) < unsigned(in.height))
                window[count++] = in.at(x + dx, y + dy);
    insertion_sort(window, count);
    out.at(x, y) = window[count / 2];
}

// Gradient by Sobel's operator; the direction picks one of four neighbours.
__global__ void edges(Image in, int threshold, Image out) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= in.width || y >= in.height) return;
    int p[3][3];
    for (int dy = 0; dy < 3; dy++)
        for (int dx = 0; dx < 3; dx++) p[dy][dx] = in.clamped(x + dx - 1, y + dy - 1);
    const int gx = p[0][2] + 2 * p[1][2] + p[2][2] - p[0][0] - 2 * p[1][0] - p[2][0];
    const int gy = p[2][0] + 2 * p[2][1] + p[2][2] - p[0][0] - 2 * p[0][1] - p[0][2];
    out.at(x, y) = abs(gx) + abs(gy) > threshold ? 255 : 0;
}

// ---------------------------------------------------------- the same, on the host

using Pixels = std::vector<uint8_t>;

struct Recipe {
    int width, height, median_radius, threshold;
    Filter filter;
};

Pixels host_filter(const Pixels &in, const Recipe &r, bool rows) {
    Pixels out(in.size());
    for (int y = 0; y < r.height; y++)
        for (int x = 0; x < r.width; x++) {
            int sum = 1 << (r.filter.shift - 1);
            for (int tap = -r.filter.radius; tap <= r.filter.radius; tap++) {
                const int sx = rows ? std::clamp(x + tap, 0, r.width - 1) : x;
                const int sy = rows ? y : std::clamp(y + tap, 0, r.height - 1);
                sum += r.filter.taps[tap + r.filter.radius] * in[sy * r.width + sx];
            }
            out[y * r.width + x] = static_cast<uint8_t>(std::clamp(sum >> r.filter.shift, 0, 255));
        }
    return out;
}

Pixels host_pipeline(const Pixels &in, const Recipe &r) {
    unsigned bins[256] = {}, sum = 0, lowest = 0;
    for (uint8_t pixel : in) bins[pixel]++;
    uint8_t table[256];
    for (int i = 0; i < 256; i++) {
        sum += bins[i];
        if (sum && !lowest) lowest = sum;
        const unsigned range = std::max<unsigned>(static_cast<unsigned>(in.size()) - lowest, 1);
        table[i] = sum ? static_cast<uint8_t>(((sum - lowest) * 255ull + range / 2) / range) : 0;
    }
    Pixels pixels(in.size());
    std::transform(in.begin(), in.end(), pixels.begin(), [&](uint8_t pixel) { return table[pixel]; });
    pixels = host_filter(host_filter(pixels, r, true), r, false);
    Pixels middle(in.size()), out(in.size());
    auto at = [&](int x, int y) { return int(middle[std::clamp(y, 0, r.height - 1) * r.width + std::clamp(x, 0, r.width - 1)]); };
    for (int y = 0; y < r.height; y++)
        for (int x = 0; x < r.width; x++) {
            Pixels window;
            for (int sy = y - r.median_radius; sy <= y + r.median_radius; sy++)
                for (int sx = x - r.median_radius; sx <= x + r.median_radius; sx++)
                    if (sx >= 0 && sy >= 0 && sx < r.width && sy < r.height) window.push_back(pixels[sy * r.width + sx]);
            std::sort(window.begin(), window.end());
            middle[y * r.width + x] = window[window.size() / 2];
        }
    for (int y = 0; y < r.height; y++)
        for (int x = 0; x < r.width; x++) {
            const int gx = at(x + 1, y - 1) + 2 * at(x + 1, y) + at(x + 1, y + 1) - at(x - 1, y - 1) - 2 * at(x - 1, y) -
                           at(x - 1, y + 1);
            const int gy = at(x - 1, y + 1) + 2 * at(x, y + 1) + at(x + 1, y + 1) - at(x - 1, y - 1) - 2 * at(x, y - 1) -
                           at(x + 1, y - 1);
            out[y * r.width + x] = std::abs(gx) + std::abs(gy) > r.threshold ? 255 : 0;
        }
    return out;
}

// ---------------------------------------------------------------------- host

Image make_image(int width, int height) {
    Image image{nullptr, 0, width, height};
    CHECK(cudaMallocPitch(&image.pixels, &image.pitch, width, height));
    return image;
}

// A kernel node's parameters and the values that they point to.
template <typename... Arguments>
class Node {
  public:
    Node(void (*kernel)(Arguments...), dim3 grid, dim3 block, size_t shared, std::tuple<Arguments...> arguments)
        : arguments_(arguments) {
        parameters_.func = reinterpret_cast<void *>(kernel);
        parameters_.gridDim = grid;
        parameters_.blockDim = block;
        parameters_.sharedMemBytes = static_cast<unsigned>(shared);
        std::apply([&](auto &...each) { pointers_ = {&each...}; }, arguments_);
        parameters_.kernelParams = pointers_.data();
    }
    Node(const Node &) = delete;
    const cudaKernelNodeParams *operator&() const { return &parameters_; }

  private:
    std::tuple<Arguments...> arguments_;
    std::vector<void *> pointers_;
    cudaKernelNodeParams parameters_ = {};
};

class Pipeline {
  public:
    Pipeline(int width, int height) : width_(width), height_(height) {
        for (Image *image : {&input_, &first_, &second_}) *image = make_image(width, height);
        bins_ = zeroed<unsigned>(256);
        table_ = zeroed<uint8_t>(256);
    }
    ~Pipeline() {
        for (Image *image : {&input_, &first_, &second_}) CHECK(cudaFree(image->pixels));
        CHECK(cudaFree(bins_));
        CHECK(cudaFree(table_));
        if (exec_) CHECK(cudaGraphExecDestroy(exec_));
        if (graph_) CHECK(cudaGraphDestroy(graph_));
    }

    Pixels run(const Pixels &pixels, const Recipe &recipe, int which) {
        CHECK(cudaMemcpyToSymbol(filters, &recipe.filter, sizeof(Filter), which * sizeof(Filter)));
        CHECK(cudaMemcpy2D(input_.pixels, input_.pitch, pixels.data(), width_, width_, height_, cudaMemcpyHostToDevice));
        const dim3 block(kTileX, kTileY), grid((width_ + kTileX - 1) / kTileX, (height_ + kTileY - 1) / kTileY);
        const dim3 wide((width_ + 4 * kTileX - 1) / (4 * kTileX), grid.y);
        Node count(histogram, dim3(12), dim3(128), 4 * 256 * sizeof(unsigned), std::make_tuple(input_, bins_));
        Node make_table(equalization_table, dim3(1), dim3(256), 0,
                        std::make_tuple(static_cast<const unsigned *>(bins_), width_ * height_, table_));
        Node equalize(apply_table, wide, block, 0,
                      std::make_tuple(input_, static_cast<const uint8_t *>(table_), first_));
        Node rows(convolve<true>, grid, block, 0, std::make_tuple(first_, which, second_));
        Node columns(convolve<false>, grid, block, 0, std::make_tuple(second_, which, first_));
        Node middle(median, grid, block, 0, std::make_tuple(first_, recipe.median_radius, second_));
        Node gradient(edges, grid, block, 0, std::make_tuple(second_, recipe.threshold, first_));
        const std::vector<const cudaKernelNodeParams *> stages = {&count,   &make_table, &equalize, &rows,
                                                                  &columns, &middle,     &gradient};
        if (!exec_) {
            CHECK(cudaGraphCreate(&graph_, 0));
            cudaMemsetParams clear = {};
            clear.dst = bins_;
            clear.elementSize = sizeof(unsigned);
            clear.width = 256;
            clear.height = 1;
            cudaGraphNode_t last;
            CHECK(cudaGraphAddMemsetNode(&last, graph_, nullptr, 0, &clear));
            for (const cudaKernelNodeParams *stage : stages) {
                nodes_.push_back({});
                CHECK(cudaGraphAddKernelNode(&nodes_.back(), graph_, &last, 1, stage));
                last = nodes_.back();
            }
            CHECK(cudaGraphInstantiate(&exec_, graph_, 0));
        } else {
            for (size_t i = 0; i < stages.size(); i++)
                CHECK(cudaGraphExecKernelNodeSetParams(exec_, nodes_[i], stages[i]));
        }
        CHECK(cudaGraphLaunch(exec_, nullptr));
        Pixels out(width_ * height_);
        CHECK(cudaMemcpy2D(out.data(), width_, first_.pixels, first_.pitch, width_, height_, cudaMemcpyDeviceToHost));
        return out;
    }

  private:
    int width_, height_;
    Image input_, first_, second_;
    unsigned *bins_;
    uint8_t *table_;
    cudaGraph_t graph_ = nullptr;
    cudaGraphExec_t exec_ = nullptr;
    std::vector<cudaGraphNode_t> nodes_;
};

Pixels scene(int width, int height, int seed) {
    Pixels pixels(width * height);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const int dx = x - width / 2, dy = y - height / 3;
            int value = 60 + (x * 40 / width) + (dx * dx + dy * dy < 900 ? 50 : 0) + ((x / 16 + y / 16) % 2) * 20;
            if ((x * 7919 + y * 104729 + seed) % 61 == 0) value = 255;
            pixels[y * width + x] = static_cast<uint8_t>(value + (x * y + seed) % 5);
        }
    return pixels;
}

int main() {
    constexpr int width = 203, height = 117;
    Pipeline pipeline(width, height);
    const Recipe recipes[2] = {{width, height, 2, 120, {4, 8, {4, 14, 30, 50, 60, 50, 30, 14, 4}}},
                               {width, height, 1, 90, {1, 2, {1, 2, 1}}}};
    int wrong = 0;
    for (int i = 0; i < 2; i++) {
        const Pixels in = scene(width, height, i * 1000), out = pipeline.run(in, recipes[i], i);
        const bool same = out == host_pipeline(in, recipes[i]);
        std::printf("image %d %016llx %s\n", i, digest_bytes(out.data(), out.size()), same ? "as on the host" : "WRONG");
        wrong += !same;
    }
    return wrong;
}
