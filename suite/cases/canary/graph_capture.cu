// bug: a kernel in a captured graph writes past the end of its buffer
// run: protect=canary
// expect: rule=canary-overwritten kernel=_Z5countPii at=0 size=4000
#include "case.h"

__global__ void count(int *out, int n) {  // BUG
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += i;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 1000;
    int *out = zeroed<int>(n);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t nodes = 0;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int round = 0; round < 3; round++) count<<<4, 256, 0, stream>>>(out, n + bad);
    CHECK(cudaStreamEndCapture(stream, &graph));
    // The graph is what the program made of it.
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 5; round++) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    std::printf("%zu nodes\n", nodes);
    print_digest("out", out, n);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(out));
}
