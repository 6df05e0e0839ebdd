// Graphs, captured over two streams and built by hand: kernels, copies, memsets,
// host functions, events, child graphs, memory; launched again, updated, cloned.
// It prints what it computes.

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t error = (call);                                                      \
        if (error != cudaSuccess) {                                                      \
            printf("%s: %s\n", #call, cudaGetErrorString(error));                        \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

__global__ void scale(int *data, int by) { data[threadIdx.x] = data[threadIdx.x] * by + 1; }
__global__ void sum(int *to, const int *a, const int *b) { to[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x]; }

static int called = 0;
static void count(void *by) { called += *static_cast<int *>(by); }

static unsigned digest(const int *device) {
    int host[64];
    CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    unsigned all = 0;
    for (int value : host) all = all * 31 + value;
    return all;
}

int main() {
    cudaStream_t first, second;
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaStreamCreate(&second));
    int *a, *b, *c, *host;
    for (int **all : {&a, &b, &c}) CHECK(cudaMalloc(all, 256));
    CHECK(cudaMallocHost(&host, 256));
    for (int at = 0; at < 64; at++) host[at] = at;
    cudaEvent_t fork, join;
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));

    cudaGraph_t graph;
    int one = 1;
    CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(a, host, 256, cudaMemcpyHostToDevice, first));
    CHECK(cudaEventRecord(fork, first));
    CHECK(cudaStreamWaitEvent(second, fork, 0));
    scale<<<1, 64, 0, first>>>(a, 3);
    CHECK(cudaMemsetAsync(b, 1, 256, second));
    scale<<<1, 64, 0, second>>>(b, 2);
    CHECK(cudaEventRecord(join, second));
    CHECK(cudaStreamWaitEvent(first, join, 0));
    sum<<<1, 64, 0, first>>>(c, a, b);
    CHECK(cudaLaunchHostFunc(first, count, &one));
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(second, &status));
    CHECK(cudaStreamEndCapture(first, &graph));
    size_t nodes = 0, edges = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    printf("captured %d, %zu nodes, %zu edges, c %08x called %d\n", status, nodes, edges, 0, called);

    cudaGraphExec_t ready;
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    for (int round = 0; round < 3; round++) {
        host[5] = 50 + round;
        CHECK(cudaGraphLaunch(ready, first));
        CHECK(cudaStreamSynchronize(first));
        printf("round %d: %08x called %d\n", round, digest(c), called);
    }

    // New parameters for a kernel of the executable graph.
    cudaGraphNode_t all[16];
    nodes = 16;
    CHECK(cudaGraphGetNodes(graph, all, &nodes));
    for (size_t at = 0; at < nodes; at++) {
        cudaGraphNodeType type;
        CHECK(cudaGraphNodeGetType(all[at], &type));
        if (type != cudaGraphNodeTypeKernel) continue;
        cudaKernelNodeParams parameters;
        CHECK(cudaGraphKernelNodeGetParams(all[at], &parameters));
        if (parameters.func != (void *)scale) continue;
        int by = 7 + *static_cast<int *>(parameters.kernelParams[1]);
        void *changed[] = {parameters.kernelParams[0], &by};
        parameters.kernelParams = changed;
        CHECK(cudaGraphExecKernelNodeSetParams(ready, all[at], &parameters));
    }
    CHECK(cudaGraphLaunch(ready, second));
    CHECK(cudaStreamSynchronize(second));
    printf("changed: %08x\n", digest(c));
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(ready, graph, &info));
    CHECK(cudaGraphLaunch(ready, first));
    CHECK(cudaStreamSynchronize(first));
    printf("updated: %08x\n", digest(c));

    // By hand, with a clone as a child.
    cudaGraph_t whole, clone;
    CHECK(cudaGraphClone(&clone, graph));
    CHECK(cudaGraphCreate(&whole, 0));
    cudaGraphNode_t child, kernel, memory, release, empty;
    CHECK(cudaGraphAddChildGraphNode(&child, whole, nullptr, 0, clone));
    cudaMemAllocNodeParams wanted = {};
    wanted.poolProps.allocType = cudaMemAllocationTypePinned;
    wanted.poolProps.location.type = cudaMemLocationTypeDevice;
    wanted.bytesize = 256;
    CHECK(cudaGraphAddMemAllocNode(&memory, whole, nullptr, 0, &wanted));
    cudaGraphNode_t both[] = {child, memory};
    CHECK(cudaGraphAddEmptyNode(&empty, whole, both, 2));
    int *temporary = static_cast<int *>(wanted.dptr);
    void *arguments[] = {&temporary, &c, &a};
    cudaKernelNodeParams parameters = {};
    parameters.func = (void *)sum;
    parameters.gridDim = dim3(1);
    parameters.blockDim = dim3(64);
    parameters.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&kernel, whole, &empty, 1, &parameters));
    cudaGraphNode_t copy;
    CHECK(cudaGraphAddMemcpyNode1D(&copy, whole, &kernel, 1, b, temporary, 256, cudaMemcpyDeviceToDevice));
    CHECK(cudaGraphAddMemFreeNode(&release, whole, &copy, 1, temporary));
    cudaGraphExec_t by_hand;
    CHECK(cudaGraphInstantiate(&by_hand, whole, 0));
    for (int round = 0; round < 2; round++) CHECK(cudaGraphLaunch(by_hand, first));
    CHECK(cudaStreamSynchronize(first));
    printf("by hand: %08x %08x called %d\n", digest(b), digest(c), called);

    // Errors are the device's.
    printf("cycle %d ", cudaGraphAddDependencies(whole, &copy, &child, nullptr, 1));
    cudaGraphExec_t none;
    printf("%d\n", cudaGraphInstantiate(&none, whole, 0));
    cudaEvent_t outside;
    CHECK(cudaEventCreate(&outside));
    CHECK(cudaEventRecord(outside, second));
    CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    printf("waits %d ", cudaStreamSynchronize(first));
    printf("then %d ", cudaStreamWaitEvent(first, outside, 0));
    printf("ended %d\n", cudaStreamEndCapture(first, &clone));
    cudaGetLastError();
    scale<<<1, 64, 0, first>>>(a, 2);
    CHECK(cudaStreamSynchronize(first));
    printf("afterwards: %08x\n", digest(a));
    CHECK(cudaGraphExecDestroy(by_hand));
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(whole));
    CHECK(cudaGraphDestroy(graph));
    return 0;
}
