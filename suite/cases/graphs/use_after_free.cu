// bug: a captured graph is replayed after one of its buffers was freed
// expect: rule=use-after-free function=accumulate size=400
#include "case.h"

__global__ void accumulate(const int *in, int *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] += in[i];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *in = upload(counting<int>(100));
    int *out = zeroed<int>(100);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    accumulate<<<1, 128, 0, stream>>>(in, out, 100);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (bad) CHECK(cudaFree(in));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (!bad) print_digest("out", out, 100);
    if (!bad) CHECK(cudaFree(in));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(out));
}
