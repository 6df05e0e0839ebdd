// about: graphs that decide on the device, and graphs that allocate: conditional nodes, captured cudaMallocAsync
// build: arch=80 rdc
// feature: conditional and allocation nodes of graphs
#include "case.h"

static int wrong = 0;

static void expect(const char *what, const int *device, int wanted) {
    int got = 0;
    CHECK(cudaMemcpy(&got, device, sizeof(int), cudaMemcpyDeviceToHost));
    std::printf("%s: %d\n", what, got);
    wrong += got != wanted;
}

__global__ void decide(cudaGraphConditionalHandle handle, const int *value) {
    cudaGraphSetConditional(handle, unsigned(*value));
}

__global__ void count_down(cudaGraphConditionalHandle handle, int *left, int *rounds) {
    ++*rounds;
    cudaGraphSetConditional(handle, unsigned(--*left));
}

__global__ void add(int *to, int value) { *to += value; }

static cudaGraphNode_t kernel_node(cudaGraph_t graph, cudaGraphNode_t after, void *kernel, void **arguments) {
    cudaGraphNodeParams node{};
    node.type = cudaGraphNodeTypeKernel;
    node.kernel.func = kernel;
    node.kernel.gridDim = dim3(1);
    node.kernel.blockDim = dim3(1);
    node.kernel.kernelParams = arguments;
    cudaGraphNode_t made = nullptr;
    CHECK(cudaGraphAddNode(&made, graph, after ? &after : nullptr, nullptr, after ? 1 : 0, &node));
    return made;
}

// A node that decides by a handle, and its graphs.
static std::vector<cudaGraph_t> conditional(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphConditionalHandle handle,
                                            cudaGraphConditionalNodeType type, unsigned size, cudaGraphNode_t *made) {
    cudaGraphNodeParams node{};
    node.type = cudaGraphNodeTypeConditional;
    node.conditional.handle = handle;
    node.conditional.type = type;
    node.conditional.size = size;
    CHECK(cudaGraphAddNode(made, graph, after ? &after : nullptr, nullptr, after ? 1 : 0, &node));
    return {node.conditional.phGraph_out, node.conditional.phGraph_out + size};
}

static void decisions() {
    int *value = zeroed<int>(1), *left = zeroed<int>(1), *rounds = zeroed<int>(1), *sum = zeroed<int>(1);
    cudaGraph_t graph = nullptr;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle choice, again;
    CHECK(cudaGraphConditionalHandleCreate(&choice, graph));
    CHECK(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault));
    void *of_decide[] = {&choice, &value};
    cudaGraphNode_t first = kernel_node(graph, nullptr, reinterpret_cast<void *>(decide), of_decide), branch, loop;
    int ten = 10;
    void *of_add[] = {&sum, &ten};
    auto then = conditional(graph, first, choice, cudaGraphCondTypeIf, 1, &branch);
    kernel_node(then[0], nullptr, reinterpret_cast<void *>(add), of_add);
    auto body = conditional(graph, branch, again, cudaGraphCondTypeWhile, 1, &loop);
    void *of_count[] = {&again, &left, &rounds};
    kernel_node(body[0], nullptr, reinterpret_cast<void *>(count_down), of_count);
    cudaGraphExec_t executable = nullptr;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; i++) {
        const int chosen = i != 1, turns = 3 + i;
        CHECK(cudaMemcpy(value, &chosen, sizeof(int), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(left, &turns, sizeof(int), cudaMemcpyHostToDevice));
        CHECK(cudaGraphLaunch(executable, nullptr));
        FINISH();
    }
    expect("taken twice of three", sum, 20);
    expect("rounds", rounds, 3 + 4 + 5);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    for (int *buffer : {value, left, rounds, sum}) CHECK(cudaFree(buffer));
}

// The graph allocates, uses and frees; a stream that was joined to the capture
// is gone when it ends.
static void allocations() {
    int *out = zeroed<int>(1);
    cudaStream_t stream, other;
    cudaEvent_t forked, joined;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    int *buffer = nullptr;
    CHECK(cudaMallocAsync(reinterpret_cast<void **>(&buffer), 64 * sizeof(int), stream));
    CHECK(cudaMemsetAsync(buffer, 0, 64 * sizeof(int), stream));
    add<<<1, 1, 0, stream>>>(buffer, 5);
    CHECK(cudaEventRecord(forked, stream));
    CHECK(cudaStreamWaitEvent(other, forked, 0));
    add<<<1, 1, 0, other>>>(out, 1);
    CHECK(cudaEventRecord(joined, other));
    CHECK(cudaStreamWaitEvent(stream, joined, 0));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaMemcpyAsync(out, buffer, sizeof(int), cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaFreeAsync(buffer, stream));
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream, &graph));
    size_t count = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &count));
    std::printf("%zu nodes\n", count);
    wrong += count != 6;
    cudaGraphExec_t executable = nullptr;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    expect("from the graph's memory", out, 5);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(forked));
    CHECK(cudaEventDestroy(joined));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(out));
}

int main() {
    decisions();
    allocations();
    std::printf("%s\n", wrong ? "FAILED" : "all as it should be");
    return wrong;
}
