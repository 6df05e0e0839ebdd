// Host time of what programs ask of the driver, in microseconds:
//   launch    one kernel launch
//   ordered   the same, with memory from cudaMallocAsync in use
//   synchronize  a launch and a cudaDeviceSynchronize
//   allocate  cudaMalloc and cudaFree of a small and of a large buffer
//   loop      a launch of a loop of short kernels, with the waits between them
//   tight     the same of kernels that take less than their launches
//   memory    cudaMalloc of many buffers of a size, and memory that each takes
//   planes    a launch of a stencil over one plane of a volume, for each plane
//             with its number as a scalar
//   around    cudaMalloc and cudaFree of 4 KiB, eight of each around a launch
// Prints one JSON line with medians over batches. Batches are short enough
// that the driver's queue never fills. With --turns, batches are measured when
// standard input asks for them (clock.h); of `allocate`, the small buffer.
#include "clock.h"
#include "harness.h"

__global__ void three_pointers(const float *a, const float *b, float *c, int n) {
    int i = threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

static void launches(bool ordered, int batches, double warm) {
    const int batch = 200, n = 32;
    float *a = nullptr, *b = nullptr, *c = nullptr;
    CHECK(cudaMalloc(&a, n * sizeof(float)));
    CHECK(cudaMalloc(&b, n * sizeof(float)));
    if (ordered)
        CHECK(cudaMallocAsync(&c, n * sizeof(float), 0));
    else
        CHECK(cudaMalloc(&c, n * sizeof(float)));
    CHECK(cudaMemset(a, 0, n * sizeof(float)));
    CHECK(cudaMemset(b, 0, n * sizeof(float)));
    double time = median(
        batches, batch, warm,
        [&] {
            for (int i = 0; i < batch; i++) three_pointers<<<1, 32>>>(a, b, c, n);
        },
        [] {
            CHECK(cudaGetLastError());
            CHECK(cudaDeviceSynchronize());
        });
    std::printf("{\"launch_us\":%.4f}\n", time);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    if (ordered)
        CHECK(cudaFreeAsync(c, 0));
    else
        CHECK(cudaFree(c));
    CHECK(cudaDeviceSynchronize());
}

static void synchronizations(int batches, double warm) {
    const int batch = 50, n = 32;
    float *a = nullptr;
    CHECK(cudaMalloc(&a, n * sizeof(float)));
    CHECK(cudaMemset(a, 0, n * sizeof(float)));
    double time = median(
        batches, batch, warm,
        [&] {
            for (int i = 0; i < batch; i++) {
                three_pointers<<<1, 32>>>(a, a, a, n);
                CHECK(cudaDeviceSynchronize());
            }
        },
        [] {});
    std::printf("{\"synchronize_us\":%.4f}\n", time);
    CHECK(cudaFree(a));
}

static double pairs(size_t bytes, int batches, double warm) {
    const int batch = 20;
    return median(
        batches, batch, warm,
        [&] {
            for (int i = 0; i < batch; i++) {
                void *buffer = nullptr;
                CHECK(cudaMalloc(&buffer, bytes));
                CHECK(cudaFree(buffer));
            }
        },
        [] {});
}

__global__ void step(const float *in, float *out, float by, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = in[i] * by + 1.0f;
}

// What a solver does: short kernels from buffer to buffer, a wait now and then.
static void loop(int batches, double warm, int n) {
    const int batch = 2000;
    float *buffers[4];
    for (auto &buffer : buffers) {
        CHECK(cudaMalloc(&buffer, n * sizeof(float)));
        CHECK(cudaMemset(buffer, 0, n * sizeof(float)));
    }
    double time = median(
        batches, batch, warm,
        [&] {
            for (int i = 0; i < batch; i++) {
                step<<<264, 256>>>(buffers[i % 4], buffers[(i + 1) % 4], 0.5f, n);
                if (i % 100 == 99) CHECK(cudaStreamSynchronize(0));
            }
            CHECK(cudaDeviceSynchronize());
        },
        [] { CHECK(cudaGetLastError()); });
    std::printf("{\"loop_us\":%.4f}\n", time);
    for (auto *buffer : buffers) CHECK(cudaFree(buffer));
}

// One plane of a 3-D convolution, as PolyBench has it.
__global__ void plane(const float *in, float *out, int side, int z) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= side - 1 || y >= side - 1) return;
    float sum = 0.0f;
    for (int dz = -1; dz <= 1; dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                sum += (dx + 2 * dy + 3 * dz) * in[((z + dz) * side + y + dy) * side + x + dx];
    out[(z * side + y) * side + x] = sum;
}

static void planes(int batches, double warm, int side) {
    const size_t bytes = size_t(side) * side * side * sizeof(float);
    float *in = nullptr, *out = nullptr;
    CHECK(cudaMalloc(&in, bytes));
    CHECK(cudaMalloc(&out, bytes));
    CHECK(cudaMemset(in, 0, bytes));
    dim3 block(32, 8), grid((side + 31) / 32, (side + 7) / 8);
    double time = median(
        batches, side - 2, warm,
        [&] {
            for (int z = 1; z < side - 1; z++) plane<<<grid, block>>>(in, out, side, z);
            CHECK(cudaDeviceSynchronize());
        },
        [] { CHECK(cudaGetLastError()); });
    std::printf("{\"planes_us\":%.4f}\n", time);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}

// What a program does that allocates in its main loop.
static void around(int batches, double warm) {
    const int batch = 20, buffers = 8, n = 32;
    double time = median(
        batches, batch * buffers, warm,
        [&] {
            for (int i = 0; i < batch; i++) {
                float *all[buffers];
                for (auto &buffer : all) CHECK(cudaMalloc(&buffer, 4 << 10));
                three_pointers<<<1, 32>>>(all[0], all[1], all[2], n);
                for (auto *buffer : all) CHECK(cudaFree(buffer));
            }
        },
        [] { CHECK(cudaGetLastError()); });
    std::printf("{\"around_us\":%.4f}\n", time);
}

static void memory(bool quick) {
    // A program without a kernel is none that Ringfence has to do with.
    float *small = nullptr;
    CHECK(cudaMalloc(&small, 32 * sizeof(float)));
    three_pointers<<<1, 32>>>(small, small, small, 32);
    CHECK(cudaDeviceSynchronize());
    for (size_t bytes : {16, 256, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30}) {
        size_t least = bytes > (16 << 20) ? 4 : 16;
        size_t count = std::min<size_t>(4096, std::max(least, (512u << 20) / bytes));
        if (quick) count = 4;
        std::vector<void *> buffers(count);
        size_t before = 0, after = 0, total = 0;
        CHECK(cudaMemGetInfo(&before, &total));
        auto start = Clock::now();
        for (auto &buffer : buffers) CHECK(cudaMalloc(&buffer, bytes));
        double time = microseconds(start) / count;
        CHECK(cudaMemGetInfo(&after, &total));
        std::printf("{\"buffer\":%zu,\"bytes_each\":%.1f,\"allocate_us\":%.4f}\n", bytes,
                    (double(before) - double(after)) / count, time);
        for (auto *buffer : buffers) CHECK(cudaFree(buffer));
    }
    CHECK(cudaFree(small));
}

int main(int argc, char **argv) {
    std::string what = argc > 1 ? argv[1] : "";
    bool quick = false;
    for (int i = 2; i < argc; i++) {
        quick |= !std::strcmp(argv[i], "--quick");
        by_turns |= !std::strcmp(argv[i], "--turns");
    }
    int batches = quick ? 3 : 200;
    double warm = quick ? 0 : 200e3;
    if (what == "launch" || what == "ordered") {
        launches(what == "ordered", batches, warm);
        return 0;
    }
    if (what == "synchronize") {
        synchronizations(batches, warm);
        return 0;
    }
    if (what == "loop") {
        // Kernels of about 6 µs: the device has always something to do.
        loop(quick ? 1 : 20, warm, quick ? 1 << 10 : 1 << 21);
        return 0;
    }
    if (what == "tight") {
        // Shorter than a launch takes the host.
        loop(quick ? 1 : 20, warm, 1 << 10);
        return 0;
    }
    if (what == "memory") {
        memory(quick);
        return 0;
    }
    if (what == "planes") {
        planes(quick ? 1 : 20, warm, quick ? 16 : 256);
        return 0;
    }
    if (what == "around") {
        around(quick ? 1 : 50, warm);
        return 0;
    }
    if (what == "allocate") {
        // A program without a kernel is none that Ringfence has to do with.
        float *buffer = nullptr;
        CHECK(cudaMalloc(&buffer, 32 * sizeof(float)));
        three_pointers<<<1, 32>>>(buffer, buffer, buffer, 32);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaFree(buffer));
        double small = pairs(4 << 10, batches, warm);
        // One thing is measured by turns.
        if (by_turns) return 0;
        double large = pairs(4 << 20, batches, warm);
        std::printf("{\"small_us\":%.4f,\"large_us\":%.4f}\n", small, large);
        return 0;
    }
    std::fprintf(stderr, "usage: %s launch|ordered|synchronize|allocate|loop|tight|memory|planes|around [--quick] [--turns]\n", argv[0]);
    return 2;
}
