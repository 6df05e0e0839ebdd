// Memory that is used after its free, freed twice, freed wrongly, or right:
// the first argument says what.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                               \
    do {                                                                          \
        cudaError_t status_ = (call);                                             \
        if (status_ != cudaSuccess) {                                             \
            std::printf("%d: %s: %s\n", __LINE__, #call, cudaGetErrorName(status_)); \
            std::exit(1);                                                         \
        }                                                                         \
    } while (0)

__global__ void fill(int *data, int count, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] = value;
    }
}

__global__ void fill_through(int **table, int count, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        (*table)[i] = value;
    }
}

static const int COUNT = 1000;
static const size_t BYTES = COUNT * sizeof(int);

static void launch(int *data) {
    fill<<<4, 256>>>(data, COUNT, 7);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

static int *allocate(const char *kind) {
    int *data = nullptr;
    if (!std::strcmp(kind, "device")) {
        CHECK(cudaMalloc(&data, BYTES));
    } else if (!std::strcmp(kind, "managed")) {
        CHECK(cudaMallocManaged(&data, BYTES));
    } else if (!std::strcmp(kind, "pinned")) {
        CHECK(cudaMallocHost(&data, BYTES));
    } else if (!std::strcmp(kind, "large")) {
        CHECK(cudaMalloc(&data, 600u << 20));
    } else {
        CHECK(cudaMallocAsync(&data, BYTES, 0));
    }
    return data;
}

static cudaError_t release(const char *kind, int *data) {
    if (!std::strcmp(kind, "pinned")) {
        return cudaFreeHost(data);
    }
    if (!std::strcmp(kind, "pool")) {
        return cudaFreeAsync(data, 0);
    }
    return cudaFree(data);
}

static void say(const char *what, cudaError_t status) {
    std::printf("%s: %s\n", what, cudaGetErrorName(status));
    cudaGetLastError();
}

static int used_after_free(const char *kind, bool delayed) {
    int *data = allocate(kind);
    launch(data);
    CHECK(release(kind, data));
    int *others[8];
    if (delayed) {
        for (int *&other : others) {
            other = allocate(kind);
        }
    }
    launch(data);
    if (delayed) {
        for (int *other : others) {
            CHECK(release(kind, other));
        }
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}

static int used_through_memory() {
    int *data = allocate("device");
    int **table = nullptr;
    CHECK(cudaMalloc(&table, sizeof *table));
    CHECK(cudaMemcpy(table, &data, sizeof data, cudaMemcpyHostToDevice));
    CHECK(cudaFree(data));
    int *other = allocate("device");
    fill_through<<<4, 256>>>(table, COUNT, 3);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(other));
    CHECK(cudaFree(table));
    return 0;
}

static int bad_frees() {
    int *device = allocate("device");
    int *pinned = allocate("pinned");
    int *managed = allocate("managed");
    int *pool = allocate("pool");
    int local = 0;
    int *heap = static_cast<int *>(std::malloc(BYTES));
    say("inside", cudaFree(device + 1));
    say("host pointer", cudaFree(heap));
    say("stack pointer", cudaFree(&local));
    say("pinned by cudaFree", cudaFree(pinned));
    say("device by cudaFreeHost", cudaFreeHost(device));
    say("managed by cudaFreeHost", cudaFreeHost(managed));
    say("never allocated", cudaFree(reinterpret_cast<void *>(0x123456789000)));
    say("inside a pool's", cudaFreeAsync(pool + 4, 0));
    say("device", cudaFree(device));
    say("device again", cudaFree(device));
    say("pinned", cudaFreeHost(pinned));
    say("pinned again", cudaFreeHost(pinned));
    say("managed", cudaFree(managed));
    say("managed again", cudaFree(managed));
    say("pool", cudaFreeAsync(pool, 0));
    say("pool again", cudaFreeAsync(pool, 0));
    std::free(heap);
    return 0;
}

// Everything here is legal.
static int good() {
    size_t before = 0, after = 0, total = 0;
    CHECK(cudaMemGetInfo(&before, &total));
    for (int round = 0; round < 50; ++round) {
        int *data = allocate("device");
        launch(data);
        CHECK(cudaFree(data));
        int *pool = allocate("pool");
        launch(pool);
        CHECK(cudaFree(pool));
        data = allocate("device");
        CHECK(cudaFreeAsync(data, 0));
        pool = allocate("pool");
        launch(pool);
        CHECK(cudaFreeAsync(pool, 0));
    }
    int *large = allocate("large");
    launch(large);
    CHECK(cudaFree(large));
    CHECK(cudaFree(nullptr));
    CHECK(cudaFreeHost(nullptr));

    // A free waits for kernels.
    volatile int *seen = allocate("pinned");
    seen[0] = 0;
    int *scratch = allocate("device");
    fill<<<4, 256>>>(const_cast<int *>(seen), COUNT, 5);
    CHECK(cudaFree(scratch));
    std::printf("seen %d\n", seen[0]);
    CHECK(cudaFreeHost(const_cast<int *>(seen)));

    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *ordered = nullptr;
    CHECK(cudaMallocAsync(&ordered, BYTES, stream));
    fill<<<4, 256, 0, stream>>>(ordered, COUNT, 1);
    CHECK(cudaFreeAsync(ordered, stream));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaDeviceSynchronize());

    cudaPointerAttributes attributes;
    int *freed = allocate("device");
    CHECK(cudaFree(freed));
    CHECK(cudaPointerGetAttributes(&attributes, freed));
    std::printf("freed memory is known: %d\n", attributes.type != cudaMemoryTypeUnregistered);

    cudaMemPool_t pool;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaMemGetInfo(&after, &total));
    std::printf("all given back: %d\n", before == after);
    return 0;
}

// More than the device has, over time.
static int churn() {
    size_t left = 0, total = 0;
    CHECK(cudaMemGetInfo(&left, &total));
    size_t piece = total / 5 * 2;
    for (int round = 0; round < 6; ++round) {
        void *a = nullptr, *b = nullptr;
        CHECK(cudaMalloc(&a, piece));
        CHECK(cudaMalloc(&b, piece));
        CHECK(cudaFree(a));
        CHECK(cudaFree(b));
    }
    std::printf("done\n");
    return 0;
}

static int *keep;

static int leaks() {
    for (int round = 0; round < 3; ++round) {
        keep = allocate("device");
    }
    int *freed = allocate("managed");
    CHECK(cudaFree(freed));
    keep = allocate("pinned");
    launch(keep);
    return 0;
}

static int reset() {
    int *data = allocate("device");
    int *freed = allocate("device");
    CHECK(cudaFree(freed));
    CHECK(cudaDeviceReset());
    say("after the reset", cudaFree(data));
    int *again = allocate("device");
    launch(again);
    CHECK(cudaFree(again));
    return 0;
}

static void in_stream(int *data, cudaStream_t stream) {
    fill<<<4, 256, 0, stream>>>(data, COUNT, 1);
    CHECK(cudaGetLastError());
}

// Two streams, and what orders them or does not.
static int streams(const char *what) {
    cudaStream_t a, b;
    cudaEvent_t event;
    CHECK(cudaStreamCreate(&a));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    int *data = nullptr;
    CHECK(cudaMallocAsync(&data, BYTES, a));
    CHECK(cudaMemsetAsync(data, 0, BYTES, a));
    if (!std::strcmp(what, "early")) {
        in_stream(data, b);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaFreeAsync(data, a));
    } else {
        in_stream(data, a);
        CHECK(cudaEventRecord(event, a));
        CHECK(cudaStreamWaitEvent(b, event, 0));
        in_stream(data, b);
        if (!std::strcmp(what, "free-race")) {
            CHECK(cudaFreeAsync(data, a));
        } else {
            CHECK(cudaEventRecord(event, b));
            CHECK(cudaStreamWaitEvent(a, event, 0));
            CHECK(cudaFreeAsync(data, a));
            if (!std::strcmp(what, "late")) {
                in_stream(data, a);
            } else if (!std::strcmp(what, "race")) {
                in_stream(data, b);
            }
        }
    }
    // Memory that goes from one stream to the other in every legal way.
    for (int round = 0; !std::strcmp(what, "ordered") && round < 6; ++round) {
        CHECK(cudaMallocAsync(&data, BYTES, a));
        in_stream(data, a);
        switch (round) {
        case 0: CHECK(cudaStreamSynchronize(a)); break;
        case 1: CHECK(cudaDeviceSynchronize()); break;
        case 2: CHECK(cudaEventRecord(event, a)); CHECK(cudaEventSynchronize(event)); break;
        case 3:
            while (cudaStreamQuery(a) == cudaErrorNotReady) {
                cudaGetLastError();
            }
            break;
        case 4: {
            int last;
            CHECK(cudaMemcpyAsync(&last, data, sizeof last, cudaMemcpyDeviceToHost, a));
            CHECK(cudaStreamSynchronize(a));
            break;
        }
        default: CHECK(cudaEventRecord(event, a)); CHECK(cudaStreamWaitEvent(b, event, 0));
        }
        in_stream(data, b);
        CHECK(cudaFreeAsync(data, b));
        // The legacy default stream orders the first stream with itself.
        CHECK(cudaMallocAsync(&data, BYTES, a));
        in_stream(data, 0);
        in_stream(data, a);
        CHECK(cudaFreeAsync(data, 0));
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamDestroy(a));
    CHECK(cudaStreamDestroy(b));
    return 0;
}

int main(int, char **arguments) {
    const char *what = arguments[1];
    if (!std::strcmp(what, "used")) {
        return used_after_free(arguments[2], false);
    }
    if (!std::strcmp(what, "used-later")) {
        return used_after_free(arguments[2], true);
    }
    if (!std::strcmp(what, "used-through-memory")) {
        return used_through_memory();
    }
    if (!std::strcmp(what, "bad-frees")) {
        return bad_frees();
    }
    if (!std::strcmp(what, "leaks")) {
        return leaks();
    }
    if (!std::strcmp(what, "reset")) {
        return reset();
    }
    if (!std::strcmp(what, "churn")) {
        return churn();
    }
    if (!std::strcmp(what, "good")) {
        return good();
    }
    return streams(what);
}
