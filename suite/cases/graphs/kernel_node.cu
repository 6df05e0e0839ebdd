// bug: a graph is made by hand, and one of its kernel nodes has a count one too large
// expect: rule=global-out-of-bounds-write function=step size=400
#include "case.h"

__global__ void step(int *data, int n, int by) {
    int i = threadIdx.x;
    if (i < n) data[i] = i + by;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = zeroed<int>(100);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t previous = nullptr;
    for (int k = 0; k < 3; k++) {
        int n = 100 + (k == 1 ? bad : 0), by = k;
        void *arguments[] = {&data, &n, &by};
        cudaKernelNodeParams node = {};
        node.func = reinterpret_cast<void *>(step);
        node.gridDim = dim3(1);
        node.blockDim = dim3(128);
        node.kernelParams = arguments;
        cudaGraphNode_t added;
        CHECK(cudaGraphAddKernelNode(&added, graph, previous ? &previous : nullptr, previous ? 1 : 0, &node));
        previous = added;
    }
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, nullptr));
    CHECK(cudaDeviceSynchronize());
    print_digest("data", data, 100);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(data));
}
