// bug: a kernel of a graph writes past the end of a buffer
// run: protect=shadow
// expect: rule=global-out-of-bounds-write function=fill size=240
#include "case.h"

__global__ void fill(int *out, int n, int value) {
    int i = threadIdx.x;
    if (i < n) out[i] = value + i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(60);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    fill<<<1, 64, 0, stream>>>(out, 60 + bad, 7);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    for (int round = 0; round < 3; round++) CHECK(cudaGraphLaunch(ready, stream));
    CHECK(cudaStreamSynchronize(stream));
    print_digest("out", out, 60);
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(out));
}
