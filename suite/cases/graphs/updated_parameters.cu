// bug: the parameters of an instantiated graph's node are set to a larger count than its buffer has
// expect: rule=global-out-of-bounds-write function=step size=400
#include "case.h"

__global__ void step(int *data, int n) {
    int i = threadIdx.x;
    if (i < n) data[i] = 2 * i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = zeroed<int>(100);
    int n = 90;
    void *arguments[] = {&data, &n};
    cudaKernelNodeParams parameters = {};
    parameters.func = reinterpret_cast<void *>(step);
    parameters.gridDim = dim3(1);
    parameters.blockDim = dim3(128);
    parameters.kernelParams = arguments;
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t executable;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, nullptr));
    n = 100 + bad;
    CHECK(cudaGraphExecKernelNodeSetParams(executable, node, &parameters));
    CHECK(cudaGraphLaunch(executable, nullptr));
    CHECK(cudaDeviceSynchronize());
    print_digest("data", data, 100);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(data));
}
