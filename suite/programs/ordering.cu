// about: what comes behind what: events recorded again, launches of one graph in two streams, memory and objects of graphs
// build: arch=80
// feature: events, graphs, host functions, threads
//
// Host functions hold streams up until the host lets them go on, so that each
// answer below depends on an order that CUDA promises, and on no time.
#include "case.h"
#include <atomic>
#include <chrono>
#include <thread>

static int wrong = 0;

static void expect(const char *what, long got, long wanted) {
    std::printf("%s: %ld\n", what, got);
    if (got != wanted) {
        std::fprintf(stderr, "%s: not %ld\n", what, wanted);
        wrong++;
    }
}

static std::atomic<bool> is_open{false};

static void hold(void *) {
    while (!is_open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Writes after many steps.
__global__ void late(volatile int *to, int value, int steps) {
    for (int step = 0; step < steps; step++) to[1] = step;
    to[0] = value;
}

__global__ void add(volatile int *to, int times) {
    for (int time = 0; time < times; time++) to[0] = to[0] + 1;
}

__global__ void fill(int *to, int count, int value) {
    for (int at = threadIdx.x; at < count; at += blockDim.x) to[at] = value;
}

__global__ void sum(const int *from, int count, int *to) {
    for (int at = threadIdx.x; at < count; at += blockDim.x) atomicAdd(to, from[at]);
}

__global__ void wait_for(volatile int *flag, int *to) {
    while (flag[0] == 0) {}
    to[0] = 77;
}

__global__ void set(int *flag) { atomicExch(flag, 1); }

__constant__ int weights[4];

__global__ void weigh(int *to) { to[0] = weights[0] + 10 * weights[1] + 100 * weights[2] + 1000 * weights[3]; }

/// Loads all code, by its attributes or its occupancy. A driver that loads a kernel at its
/// first launch may wait until the device is idle, and here kernels wait for the host (CUDA
/// C++ Programming Guide, lazy loading).
static void load() {
    const void *kernels[] = {(void *)late, (void *)add, (void *)fill, (void *)sum, (void *)weigh};
    cudaFuncAttributes attributes;
    for (const void *kernel : kernels) CHECK(cudaFuncGetAttributes(&attributes, kernel));
    int blocks;
    for (const void *kernel : {(void *)set, (void *)wait_for})
        CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 32, 0));
}

static cudaStream_t stream() {
    cudaStream_t made;
    CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    return made;
}

static int *zeros(int count) {
    int *made;
    CHECK(cudaMalloc(&made, count * sizeof(int)));
    CHECK(cudaMemset(made, 0, count * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    return made;
}

static int value(const int *at) {
    int read;
    CHECK(cudaMemcpy(&read, at, sizeof read, cudaMemcpyDeviceToHost));
    return read;
}

/// An event stands for its newest record, also where an older one is held up.
static void recorded_again() {
    is_open = false;
    cudaStream_t a = stream(), b = stream(), c = stream();
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    int *data = zeros(2), read = 0;
    CHECK(cudaLaunchHostFunc(a, hold, nullptr));
    CHECK(cudaEventRecord(event, a));
    late<<<1, 1, 0, b>>>(data, 5, 300000);
    CHECK(cudaEventRecord(event, b));
    is_open = true;
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaMemcpyAsync(&read, data, sizeof read, cudaMemcpyDeviceToHost, c));
    CHECK(cudaStreamSynchronize(c));
    expect("the newest record", read, 5);
    CHECK(cudaDeviceSynchronize());
}

/// Who waits for an event means its record at that time.
static void waited_for_before() {
    is_open = false;
    cudaStream_t a = stream(), b = stream(), c = stream();
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    int *data = zeros(2), *flag = zeros(1);
    fill<<<1, 1, 0, a>>>(data + 1, 1, 3);
    CHECK(cudaEventRecord(event, a));
    CHECK(cudaLaunchHostFunc(c, hold, nullptr));
    CHECK(cudaStreamWaitEvent(c, event, 0));
    set<<<1, 1, 0, c>>>(flag);
    wait_for<<<1, 1, 0, b>>>(flag, data);
    CHECK(cudaEventRecord(event, b));
    is_open = true;
    CHECK(cudaDeviceSynchronize());
    expect("the record of that time", value(data), 77);
}

/// Copies from and to pinned memory are made when it is their turn, and not waited for.
static void copies_in_streams() {
    constexpr int COUNT = 100000;
    cudaStream_t a = stream(), b = stream();
    int *data = zeros(COUNT), *flag = zeros(1), *other = zeros(1), *host;
    CHECK(cudaMallocHost(&host, 2 * COUNT * sizeof(int)));
    for (int at = 0; at < COUNT; at++) host[at] = at;
    wait_for<<<1, 1, 0, a>>>(flag, other);
    CHECK(cudaMemcpyAsync(data, host, COUNT * sizeof(int), cudaMemcpyHostToDevice, a));
    fill<<<1, 32, 0, a>>>(data, 10, 7);
    CHECK(cudaMemcpyAsync(host + COUNT, data, COUNT * sizeof(int), cudaMemcpyDeviceToHost, a));
    CHECK(cudaMemcpyAsync(host + COUNT + 3, data + COUNT - 1, sizeof(int), cudaMemcpyDeviceToHost, a));
    expect("not waited for", cudaStreamQuery(a), cudaErrorNotReady);
    set<<<1, 1, 0, b>>>(flag);
    CHECK(cudaStreamSynchronize(a));
    long all = 0;
    for (int at = COUNT; at < 2 * COUNT; at++) all += host[at];
    // (Ten are 7 in place of 0 to 9, and of these one is the last one.)
    expect("copied in order", all, static_cast<long>(COUNT) * (COUNT - 1) / 2 - 45 + 63 + COUNT - 1);
    CHECK(cudaFreeHost(host));
}

/// Launches of one executable graph come behind each other.
static void launched_in_two_streams() {
    cudaStream_t a = stream(), b = stream();
    int *data = zeros(1);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
    add<<<1, 1, 0, a>>>(data, 20000);
    CHECK(cudaStreamEndCapture(a, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int launch = 0; launch < 6; launch++) CHECK(cudaGraphLaunch(executable, launch & 1 ? b : a));
    CHECK(cudaDeviceSynchronize());
    expect("launches of one graph", value(data), 120000);
}

/// The memory of a graph that is destroyed while it runs is nobody else's until then.
static void destroyed_while_it_runs() {
    is_open = false;
    cudaStream_t a = stream(), b = stream();
    int *to = zeros(1), *memory;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
    CHECK(cudaMallocAsync(&memory, 4000, a));
    fill<<<1, 32, 0, a>>>(memory, 1000, 3);
    CHECK(cudaLaunchHostFunc(a, hold, nullptr));
    sum<<<1, 32, 0, a>>>(memory, 1000, to);
    CHECK(cudaFreeAsync(memory, a));
    CHECK(cudaStreamEndCapture(a, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, a));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    std::thread opener([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        is_open = true;
    });
    for (int other = 0; other < 10; other++) {
        int *others;
        CHECK(cudaMallocAsync(&others, 4000, b));
        fill<<<1, 32, 0, b>>>(others, 1000, 9);
    }
    CHECK(cudaDeviceSynchronize());
    opener.join();
    expect("memory of a graph", value(to), 3000);
}

/// A graph that leaves its memory allocated allocates once, unless it frees it itself.
static void allocates_once() {
    cudaStream_t a = stream();
    int *memory;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
    CHECK(cudaMallocAsync(&memory, 4000, a));
    fill<<<1, 32, 0, a>>>(memory, 1000, 3);
    CHECK(cudaStreamEndCapture(a, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, a));
    expect("allocated twice", cudaGraphLaunch(executable, a), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    CHECK(cudaFreeAsync(memory, a));
    CHECK(cudaGraphLaunch(executable, a));
    CHECK(cudaStreamSynchronize(a));
    expect("and then", value(memory + 999), 3);
    CHECK(cudaFree(memory));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    unsigned long long flags = 0;
    CHECK(cudaGraphExecGetFlags(executable, &flags));
    expect("flags", flags, 1);
    for (int launch = 0; launch < 3; launch++) CHECK(cudaGraphLaunch(executable, a));
    CHECK(cudaStreamSynchronize(a));
    expect("by itself", value(memory), 3);
    CHECK(cudaFree(memory));
}

/// An update takes graphs of the same shape alone.
static void another_shape() {
    int *data = zeros(1), times = 1;
    cudaGraph_t line, fork;
    cudaGraphNode_t nodes[3];
    void *arguments[] = {&data, &times};
    cudaKernelNodeParams parameters{};
    parameters.func = reinterpret_cast<void *>(add);
    parameters.gridDim = parameters.blockDim = dim3(1);
    parameters.kernelParams = arguments;
    for (cudaGraph_t *graph : {&line, &fork}) {
        CHECK(cudaGraphCreate(graph, 0));
        CHECK(cudaGraphAddKernelNode(&nodes[0], *graph, nullptr, 0, &parameters));
        CHECK(cudaGraphAddKernelNode(&nodes[1], *graph, &nodes[0], 1, &parameters));
        CHECK(cudaGraphAddKernelNode(&nodes[2], *graph, &nodes[graph == &line ? 1 : 0], 1, &parameters));
    }
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, line, 0));
    cudaGraphExecUpdateResultInfo info{};
    expect("another shape", cudaGraphExecUpdate(executable, fork, &info), cudaErrorGraphExecUpdateFailure);
    expect("and why", info.result, cudaGraphExecUpdateErrorTopologyChanged);
    (void)cudaGetLastError();
    times = 7;
    CHECK(cudaGraphKernelNodeSetParams(nodes[0], &parameters));
    CHECK(cudaGraphExecUpdate(executable, line, &info));
    CHECK(cudaGraphLaunch(executable, nullptr));
    expect("the same shape", value(data), 3);
}

static std::atomic<int> dead{0};

/// What a graph refers to lives as long as an executable graph made of it.
static void objects_of_graphs() {
    cudaStream_t a = stream();
    int *data = zeros(1);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
    add<<<1, 1, 0, a>>>(data, 1);
    CHECK(cudaStreamEndCapture(a, &graph));
    cudaUserObject_t object;
    CHECK(cudaUserObjectCreate(&object, &dead, [](void *) { dead++; }, 1, cudaUserObjectNoDestructorSync));
    CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    expect("destroyed with the graph", dead, 0);
    CHECK(cudaGraphLaunch(executable, a));
    CHECK(cudaStreamSynchronize(a));
    CHECK(cudaGraphExecDestroy(executable));
    for (int look = 0; look < 500 && dead == 0; look++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    expect("with the executable graph", dead, 1);
}

/// The default stream of a thread goes with the thread.
static void streams_of_threads() {
    int *data = zeros(1), failed = 0;
    for (int thread = 0; thread < 300; thread++)
        std::thread([&] {
            add<<<1, 1, 0, cudaStreamPerThread>>>(data, 1);
            failed += cudaGetLastError() != cudaSuccess;
            failed += cudaStreamSynchronize(cudaStreamPerThread) != cudaSuccess;
        }).join();
    expect("threads with streams", value(data), 300);
    expect("of which failed", failed, 0);
}

/// Constants are copied to, and filled, on the device.
static void constants() {
    int *data = zeros(4);
    const int host[4] = {1, 2, 3, 4};
    CHECK(cudaMemcpy(data, host, sizeof host, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyToSymbol(weights, data, 3 * sizeof(int), sizeof(int), cudaMemcpyDeviceToDevice));
    weigh<<<1, 1>>>(data);
    expect("copied on the device", value(data), 3210);
    void *address;
    CHECK(cudaGetSymbolAddress(&address, weights));
    CHECK(cudaMemset(address, 0, 2 * sizeof(int)));
    CHECK(cudaMemcpyFromSymbol(data, weights, sizeof host, 0, cudaMemcpyDeviceToDevice));
    weigh<<<1, 1>>>(data + 1);
    expect("filled there", value(data + 1), 3200);
}

int main() {
    load();
    recorded_again();
    waited_for_before();
    copies_in_streams();
    launched_in_two_streams();
    destroyed_while_it_runs();
    allocates_once();
    another_shape();
    objects_of_graphs();
    streams_of_threads();
    constants();
    return wrong != 0;
}
