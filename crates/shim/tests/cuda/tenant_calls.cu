// Functions of the host in streams: what comes behind them waits, other streams
// do not; pinned memory is copied in its turn; events behind them are not over
// before them. It prints what it computes.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t error = (call);                                                      \
        if (error != cudaSuccess) {                                                      \
            printf("%s: %s\n", #call, cudaGetErrorString(error));                        \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

__global__ void twice(int *data) { data[threadIdx.x] = 2 * data[threadIdx.x] + 1; }

static std::atomic<bool> may_go{false};
static std::thread::id main_thread;
static int order[8];
static std::atomic<int> calls{0};

static void note(int what) { order[calls++] = what; }

static void wait_for_main(void *data) {
    while (!may_go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    int *host = static_cast<int *>(data);
    for (int at = 0; at < 32; at++) host[at] = 100 + at;
    note(std::this_thread::get_id() == main_thread ? -1 : 1);
}

static void look(void *data) { note(10 + static_cast<int *>(data)[31]); }

static void done(cudaStream_t, cudaError_t status, void *data) { note(status == cudaSuccess ? *static_cast<int *>(data) : -2); }

int main() {
    main_thread = std::this_thread::get_id();
    cudaStream_t held, other;
    CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    int *pinned, *back, *data, *beside;
    CHECK(cudaMallocHost(&pinned, 128));
    CHECK(cudaMallocHost(&back, 128));
    CHECK(cudaMalloc(&data, 128));
    CHECK(cudaMalloc(&beside, 128));
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    for (int at = 0; at < 32; at++) pinned[at] = back[at] = 0;

    CHECK(cudaLaunchHostFunc(held, wait_for_main, pinned));
    // Read when the function has written it.
    CHECK(cudaMemcpyAsync(data, pinned, 128, cudaMemcpyHostToDevice, held));
    twice<<<1, 32, 0, held>>>(data);
    CHECK(cudaMemcpyAsync(back, data, 128, cudaMemcpyDeviceToHost, held));
    CHECK(cudaLaunchHostFunc(held, look, back));
    CHECK(cudaEventRecord(event, held));
    int three = 3;
    CHECK(cudaStreamAddCallback(held, done, &three, 0));

    // The other stream goes on meanwhile.
    int own[32];
    CHECK(cudaMemsetAsync(beside, 0, 128, other));
    twice<<<1, 32, 0, other>>>(beside);
    CHECK(cudaMemcpyAsync(own, beside, 128, cudaMemcpyDeviceToHost, other));
    CHECK(cudaStreamSynchronize(other));
    printf("other %d held %s %s calls %d\n", own[5], cudaGetErrorName(cudaStreamQuery(held)),
           cudaGetErrorName(cudaEventQuery(event)), calls.load());
    // Waits for an event that is not even recorded yet.
    CHECK(cudaStreamWaitEvent(other, event, 0));
    CHECK(cudaMemcpyAsync(beside, data, 128, cudaMemcpyDeviceToDevice, other));
    may_go = true;
    CHECK(cudaEventSynchronize(event));
    printf("event %s, %d calls or more\n", cudaGetErrorName(cudaEventQuery(event)), calls.load() >= 2 ? 2 : 0);
    CHECK(cudaMemcpyAsync(own, beside, 128, cudaMemcpyDeviceToHost, other));
    CHECK(cudaStreamSynchronize(other));
    CHECK(cudaDeviceSynchronize());
    printf("back %d %d own %d order %d %d %d of %d\n", back[0], back[31], own[31], order[0], order[1], order[2], calls.load());
    // A copy into memory that is not known, behind a function.
    CHECK(cudaLaunchHostFunc(held, look, back));
    CHECK(cudaMemcpyAsync(own, data, 128, cudaMemcpyDeviceToHost, held));
    printf("own %d calls %d\n", own[0], calls.load());
    CHECK(cudaStreamDestroy(held));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaFreeHost(pinned));
    return 0;
}
