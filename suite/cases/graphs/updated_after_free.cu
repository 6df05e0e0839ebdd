// bug: of two buffers that a graph used and that were freed, only one is replaced in the instantiated graph
// expect: rule=use-after-free function=add size=400
#include "case.h"

__global__ void add(const int *in, int *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] += in[i];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int n = 100;
    int *in[2] = {upload(counting<int>(n)), upload(counting<int>(n))};
    int *out = zeroed<int>(n);
    cudaGraph_t graph;
    cudaGraphNode_t nodes[2];
    cudaGraphExec_t executable;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaKernelNodeParams parameters[2] = {};
    void *arguments[2][3];
    for (int k = 0; k < 2; k++) {
        arguments[k][0] = &in[k], arguments[k][1] = &out, arguments[k][2] = &n;
        parameters[k].func = reinterpret_cast<void *>(add);
        parameters[k].gridDim = dim3(1);
        parameters[k].blockDim = dim3(128);
        parameters[k].kernelParams = arguments[k];
        CHECK(cudaGraphAddKernelNode(&nodes[k], graph, k ? nodes : nullptr, k, &parameters[k]));
    }
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, nullptr));
    CHECK(cudaDeviceSynchronize());
    for (int k = 0; k < 2; k++) {
        CHECK(cudaFree(in[k]));
        in[k] = upload(counting<int>(n));
        if (k == 1 && bad) continue;
        CHECK(cudaGraphExecKernelNodeSetParams(executable, nodes[k], &parameters[k]));
    }
    CHECK(cudaGraphLaunch(executable, nullptr));
    CHECK(cudaGraphLaunch(executable, nullptr));
    CHECK(cudaDeviceSynchronize());
    if (!bad) print_digest("out", out, n);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    for (int *data : in) CHECK(cudaFree(data));
    CHECK(cudaFree(out));
}
