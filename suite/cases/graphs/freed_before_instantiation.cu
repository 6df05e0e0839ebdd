// bug: a buffer is freed between the capture of a graph and its instantiation
// expect: rule=use-after-free function=add size=400
#include "case.h"

__global__ void add(const int *in, int *out, int n, const int *unused) {
    int i = threadIdx.x;
    if (i < n) out[i] += in[i];  // BUG
    if (n < 0) out[0] = unused[0];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *in = upload(counting<int>(100)), *unused = upload(counting<int>(100));
    int *out = zeroed<int>(100);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<1, 128, 0, stream>>>(in, out, 100, unused);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaFree(bad ? in : unused));
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (!bad) print_digest("out", out, 100);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(bad ? unused : in));
    CHECK(cudaFree(out));
}
