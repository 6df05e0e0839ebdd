// bug: a graph, destroyed since, has a kernel that reads a buffer that was freed; its twin does not read it
// expect: rule=use-after-free function=choose size=512
#include "case.h"

__global__ void choose(const int *first, const int *second, int *out, const int *take_second) {
    int i = threadIdx.x;
    out[i] += *take_second ? second[i] : first[i];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *first = upload(counting<int>(64));
    int *second = upload(counting<int>(128));
    int *out = zeroed<int>(64), *take_second = zeroed<int>(1);
    void *arguments[] = {&first, &second, &out, &take_second};
    cudaKernelNodeParams parameters = {};
    parameters.func = reinterpret_cast<void *>(choose);
    parameters.gridDim = dim3(1);
    parameters.blockDim = dim3(64);
    parameters.kernelParams = arguments;
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t executable;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphLaunch(executable, nullptr));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(second));
    CHECK(cudaMemset(take_second, bad, sizeof(int)));
    for (int k = 0; k < 3; k++) CHECK(cudaGraphLaunch(executable, nullptr));
    CHECK(cudaDeviceSynchronize());
    if (!bad) print_digest("out", out, 64);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaFree(first));
    CHECK(cudaFree(out));
    CHECK(cudaFree(take_second));
}
