// Graphs by capture and by hand, launched several times, updated.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void add(int *p, int v) { p[threadIdx.x] += v; }

static void host(void *p) { ++*(int *)p; }

static void check(int line, cudaError_t e) {
    if (e != cudaSuccess) printf("line %d: %s\n", line, cudaGetErrorString(e));
}
#define CHECK(x) check(__LINE__, x)

int main() {
    int *p, h[32], calls = 0;
    CHECK(cudaMalloc(&p, sizeof h));
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));

    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(s, &status));
    printf("capturing %d\n", status == cudaStreamCaptureStatusActive);
    CHECK(cudaMemsetAsync(p, 0, sizeof h, s));
    add<<<1, 32, 0, s>>>(p, 1);
    add<<<1, 32, 0, s>>>(p, 10);
    CHECK(cudaLaunchHostFunc(s, host, &calls));
    CHECK(cudaMemcpyAsync(h, p, sizeof h, cudaMemcpyDeviceToHost, s));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(s, &graph));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    printf("nodes %zu calls %d\n", nodes, calls);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        h[5] = 0;
        CHECK(cudaGraphLaunch(exec, s));
        CHECK(cudaStreamSynchronize(s));
        printf("launch %d: %d, calls %d\n", i, h[5], calls);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));

    int v = 7;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t set, run, back;
    cudaMemsetParams zero = {p, 0, 3, 4, 32, 1};
    CHECK(cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &zero));
    void *args[] = {&p, &v};
    cudaKernelNodeParams kernel = {(void *)add, dim3(1), dim3(32), 0, args, nullptr};
    CHECK(cudaGraphAddKernelNode(&run, graph, &set, 1, &kernel));
    CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &run, 1, h, p, sizeof h, cudaMemcpyDeviceToHost));
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(run, &type));
    cudaKernelNodeParams got;
    CHECK(cudaGraphKernelNodeGetParams(run, &got));
    printf("kernel node %d, its function %d, threads %u\n", type == cudaGraphNodeTypeKernel, got.func == (void *)add, got.blockDim.x);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    printf("by hand: %d\n", h[31]);
    v = 100;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, run, &kernel));
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    printf("updated: %d\n", h[31]);
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, graph, &info));
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamSynchronize(s));
    printf("updated back: %d\n", h[31]);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    return 0;
}
