// Threads that share streams, each with arrays of its own, make calls in an order that a
// number decides. Every array is `slope * i + start` at each point, and its thread knows both.
// Arguments: the number, calls of a thread, threads.
#include "check.h"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

typedef unsigned Word;

__global__ void scale(Word *values, size_t n, Word factor, Word more) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) values[i] = values[i] * factor + more;
}

static const int STREAMS = 5, ARRAYS = 4;
static cudaStream_t streams[STREAMS];
static std::atomic<int> wrong{0};

struct Random {
    unsigned long long state;
    unsigned next(unsigned most) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        return (unsigned)(state >> 33) % most;
    }
};

// What a function of the host does in a stream: it counts.
struct Count {
    std::atomic<int> calls{0};
};

static void count(void *of) { ((Count *)of)->calls++; }

struct Array {
    Word *device = nullptr;
    size_t n = 0;
    bool is_pooled = false;
    int stream = 0;
    Word slope = 0, start = 0;
    cudaEvent_t last = nullptr;
};

struct Worker {
    int number;
    Random random;
    Array arrays[ARRAYS];
    Word *pinned = nullptr;
    std::vector<Word> registered, pageable, back;
    Count counted;
    int counts = 0;

    static const size_t MOST = 700000;

    cudaStream_t stream(const Array &array) { return streams[array.stream]; }

    void launch(Array &array, Word factor, Word more) {
        scale<<<(unsigned)((array.n + 255) / 256), 256, 0, stream(array)>>>(array.device, array.n, factor, more);
        CHECK(cudaGetLastError());
        array.slope *= factor;
        array.start = array.start * factor + more;
    }

    void fill(Word *to, const Array &array) {
        for (size_t i = 0; i < array.n; i++) to[i] = array.slope * (Word)i + array.start;
    }

    void compare(const Word *from, const Array &array, const char *how) {
        for (size_t i = 0; i < array.n; i++) {
            Word expected = array.slope * (Word)i + array.start;
            if (from[i] == expected) continue;
            if (wrong++ < 5)
                std::printf("worker %d: %s: word %zu of %zu in stream %d is %u, not %u\n", number, how, i, array.n,
                            array.stream, from[i], expected);
            return;
        }
    }

    void make(Array &array) {
        static const size_t sizes[] = {1, 60, 5000, 16384, 100000, 131072, 300000, MOST};
        array.n = sizes[random.next(8)];
        array.is_pooled = random.next(3) == 0;
        size_t bytes = array.n * sizeof(Word);
        if (array.is_pooled) {
            CHECK(cudaMallocAsync(&array.device, bytes, stream(array)));
        } else {
            CHECK(cudaMalloc(&array.device, bytes));
        }
        CHECK(cudaMemsetAsync(array.device, 0x11, bytes, stream(array)));
        array.slope = 0;
        array.start = 0x11111111;
    }

    void drop(Array &array) {
        if (array.is_pooled) {
            CHECK(cudaFreeAsync(array.device, stream(array)));
        } else {
            CHECK(cudaFree(array.device));
        }
    }

    // Moves an array's work to another stream.
    void move(Array &array) {
        int to = random.next(STREAMS);
        switch (random.next(3)) {
        case 0:
            CHECK(cudaEventRecord(array.last, stream(array)));
            CHECK(cudaStreamWaitEvent(streams[to], array.last, 0));
            break;
        case 1:
            CHECK(cudaEventRecord(array.last, stream(array)));
            CHECK(cudaEventSynchronize(array.last));
            break;
        default:
            CHECK(cudaStreamSynchronize(stream(array)));
        }
        array.stream = to;
    }

    void upload(Array &array) {
        size_t bytes = array.n * sizeof(Word);
        array.slope = random.next(1000);
        array.start = random.next(1000000);
        switch (random.next(4)) {
        case 0:
            fill(pageable.data(), array);
            CHECK(cudaMemcpyAsync(array.device, pageable.data(), bytes, cudaMemcpyHostToDevice, stream(array)));
            // The call has read it.
            std::memset(pageable.data(), 0xee, bytes);
            break;
        case 1:
            CHECK(cudaStreamSynchronize(stream(array)));
            fill(pageable.data(), array);
            CHECK(cudaMemcpy(array.device, pageable.data(), bytes, cudaMemcpyHostToDevice));
            // A GPU may still copy a little, in order with the default stream alone.
            if (array.stream >= 2) CHECK(cudaStreamSynchronize(nullptr));
            std::memset(pageable.data(), 0xee, bytes);
            break;
        case 2:
            fill(pinned, array);
            CHECK(cudaMemcpyAsync(array.device, pinned, bytes, cudaMemcpyHostToDevice, stream(array)));
            launch(array, 3, 1);
            CHECK(cudaStreamSynchronize(stream(array)));
            std::memset(pinned, 0xee, bytes);
            break;
        default:
            fill(registered.data(), array);
            CHECK(cudaMemcpyAsync(array.device, registered.data(), bytes, cudaMemcpyHostToDevice, stream(array)));
            CHECK(cudaEventRecord(array.last, stream(array)));
            CHECK(cudaEventSynchronize(array.last));
            std::memset(registered.data(), 0xee, bytes);
        }
    }

    void download(Array &array) {
        size_t bytes = array.n * sizeof(Word);
        switch (random.next(5)) {
        case 0:
            CHECK(cudaMemcpyAsync(back.data(), array.device, bytes, cudaMemcpyDeviceToHost, stream(array)));
            compare(back.data(), array, "to pageable memory");
            break;
        case 1:
            CHECK(cudaStreamSynchronize(stream(array)));
            CHECK(cudaMemcpy(back.data(), array.device, bytes, cudaMemcpyDeviceToHost));
            compare(back.data(), array, "at once");
            break;
        case 2:
            CHECK(cudaMemcpyAsync(pinned, array.device, bytes, cudaMemcpyDeviceToHost, stream(array)));
            CHECK(cudaStreamSynchronize(stream(array)));
            compare(pinned, array, "to pinned memory");
            break;
        case 3:
            CHECK(cudaMemcpyAsync(registered.data(), array.device, bytes, cudaMemcpyDeviceToHost, stream(array)));
            CHECK(cudaEventRecord(array.last, stream(array)));
            while (cudaEventQuery(array.last) == cudaErrorNotReady) std::this_thread::yield();
            // (An event that is not over is the last error, too.)
            cudaGetLastError();
            compare(registered.data(), array, "to registered memory");
            break;
        default: {
            if (array.n < 4) break;
            // The first half of each row of two words.
            size_t rows = array.n / 2;
            CHECK(cudaMemcpy2DAsync(back.data(), 4, array.device, 8, 4, rows, cudaMemcpyDeviceToHost, stream(array)));
            Array halves = array;
            halves.n = rows;
            halves.slope *= 2;
            compare(back.data(), halves, "rows");
        }
        }
    }

    // Work in a stream that is gone before it is over.
    void pass_by(Array &array) {
        cudaStream_t brief;
        CHECK(cudaStreamCreateWithFlags(&brief, random.next(2) ? cudaStreamNonBlocking : cudaStreamDefault));
        CHECK(cudaEventRecord(array.last, stream(array)));
        CHECK(cudaStreamWaitEvent(brief, array.last, 0));
        array.slope = random.next(1000);
        array.start = random.next(1000000);
        fill(pageable.data(), array);
        CHECK(cudaMemcpyAsync(array.device, pageable.data(), array.n * sizeof(Word), cudaMemcpyHostToDevice, brief));
        std::memset(pageable.data(), 0xdd, array.n * sizeof(Word));
        for (int times = 0; times < 3; times++) {
            scale<<<(unsigned)((array.n + 255) / 256), 256, 0, brief>>>(array.device, array.n, 5, 2);
            CHECK(cudaGetLastError());
            array.slope *= 5;
            array.start = array.start * 5 + 2;
        }
        CHECK(cudaEventRecord(array.last, brief));
        CHECK(cudaStreamWaitEvent(stream(array), array.last, 0));
        CHECK(cudaStreamDestroy(brief));
    }

    // A graph that fills the array, or not, and scales it, launched some times.
    void graph(Array &array) {
        cudaStream_t captured;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CHECK(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
        CHECK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal));
        bool is_filled = random.next(2);
        if (is_filled) CHECK(cudaMemsetAsync(array.device, 0x33, array.n * sizeof(Word), captured));
        unsigned nodes = 1 + random.next(4), times = 1 + random.next(5);
        for (unsigned node = 0; node < nodes; node++)
            scale<<<(unsigned)((array.n + 255) / 256), 256, 0, captured>>>(array.device, array.n, 7, node);
        CHECK(cudaStreamEndCapture(captured, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        for (unsigned time = 0; time < times; time++) {
            CHECK(cudaGraphLaunch(exec, stream(array)));
            if (is_filled) {
                array.slope = 0;
                array.start = 0x33333333;
            }
            for (unsigned node = 0; node < nodes; node++) {
                array.slope *= 7;
                array.start = array.start * 7 + node;
            }
        }
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaStreamDestroy(captured));
    }

    // Copies one array into another of at least its size.
    void copy(Array &to, Array &from) {
        if (to.n < from.n || &to == &from) return;
        CHECK(cudaEventRecord(from.last, stream(from)));
        CHECK(cudaStreamWaitEvent(stream(to), from.last, 0));
        CHECK(cudaMemcpyAsync(to.device, from.device, from.n * sizeof(Word), cudaMemcpyDeviceToDevice, stream(to)));
        // Nothing changes what is copied until it is.
        CHECK(cudaEventRecord(to.last, stream(to)));
        CHECK(cudaStreamWaitEvent(stream(from), to.last, 0));
        Array begin = to;
        begin.n = from.n;
        begin.slope = from.slope;
        begin.start = from.start;
        CHECK(cudaMemcpyAsync(back.data(), to.device, from.n * sizeof(Word), cudaMemcpyDeviceToHost, stream(to)));
        compare(back.data(), begin, "a copy on the device");
        // All of it is one line again.
        CHECK(cudaMemsetAsync(to.device, 0x22, to.n * sizeof(Word), stream(to)));
        to.slope = 0;
        to.start = 0x22222222;
    }

    void run(int steps) {
        CHECK(cudaMallocHost(&pinned, MOST * sizeof(Word)));
        registered.resize(MOST);
        pageable.resize(MOST);
        back.resize(MOST);
        CHECK(cudaHostRegister(registered.data(), MOST * sizeof(Word), cudaHostRegisterDefault));
        for (Array &array : arrays) {
            array.stream = random.next(STREAMS);
            CHECK(cudaEventCreateWithFlags(&array.last, cudaEventDisableTiming));
            make(array);
        }
        for (int step = 0; step < steps; step++) {
            Array &array = arrays[random.next(ARRAYS)];
            switch (random.next(14)) {
            case 0: move(array); break;
            case 1:
            case 2: upload(array); break;
            case 3:
            case 4: download(array); break;
            case 5: copy(array, arrays[random.next(ARRAYS)]); break;
            case 6:
                CHECK(cudaLaunchHostFunc(stream(array), count, &counted));
                counts++;
                break;
            case 7:
                if (random.next(4) == 0) {
                    drop(array);
                    make(array);
                }
                break;
            case 8: pass_by(array); break;
            case 9: graph(array); break;
            default:
                for (unsigned times = 1 + random.next(12); times > 0; times--) launch(array, 2 * random.next(50) + 1, random.next(1000));
            }
        }
        for (Array &array : arrays) {
            CHECK(cudaMemcpyAsync(back.data(), array.device, array.n * sizeof(Word), cudaMemcpyDeviceToHost, stream(array)));
            compare(back.data(), array, "at the end");
            drop(array);
            CHECK(cudaEventDestroy(array.last));
        }
        // (The device as a whole cannot be waited for while another thread captures.)
        for (cudaStream_t stream : streams) CHECK(cudaStreamSynchronize(stream));
        if (counted.calls != counts && wrong++ < 5) std::printf("worker %d: %d calls of %d\n", number, counted.calls.load(), counts);
        CHECK(cudaHostUnregister(registered.data()));
        CHECK(cudaFreeHost(pinned));
    }
};

int main(int count, char **arguments) {
    int seed = count > 1 ? std::atoi(arguments[1]) : 1;
    int steps = count > 2 ? std::atoi(arguments[2]) : 150;
    int many = count > 3 ? std::atoi(arguments[3]) : 4;
    streams[0] = nullptr;
    CHECK(cudaStreamCreateWithFlags(&streams[1], cudaStreamDefault));
    CHECK(cudaStreamCreateWithFlags(&streams[2], cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&streams[3], cudaStreamNonBlocking));
    streams[4] = cudaStreamPerThread;
    std::vector<Worker> workers(many);
    std::vector<std::thread> threads;
    for (int number = 0; number < many; number++) {
        workers[number].number = number;
        workers[number].random.state = seed * 1000003ull + number;
        threads.emplace_back([&, number] { workers[number].run(steps); });
    }
    for (std::thread &thread : threads) thread.join();
    std::printf("wrong: %d\n", wrong.load());
    return wrong != 0;
}
