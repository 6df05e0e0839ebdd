// bug: an instantiated graph is updated from another one, and launched after a buffer of that one was freed
// expect: rule=use-after-free function=add size=400
#include "case.h"

__global__ void add(const int *in, int *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] += in[i];  // BUG
}

__global__ void twice(int *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] *= 2;
}

cudaGraph_t captured(const int *in, int *out, cudaStream_t stream) {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(out, 0, 400, stream));
    add<<<1, 128, 0, stream>>>(in, out, 100);
    twice<<<1, 128, 0, stream>>>(out, 100);
    CHECK(cudaStreamEndCapture(stream, &graph));
    return graph;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *in[3], *out = zeroed<int>(100);
    for (int *&data : in) data = upload(counting<int>(100));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t graph = captured(in[0], out, stream);
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphLaunch(executable, stream));
    for (int k = 1; k < 3; k++) {
        graph = captured(in[k], out, stream);
        cudaGraphExecUpdateResultInfo info;
        CHECK(cudaGraphExecUpdate(executable, graph, &info));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaGraphLaunch(executable, stream));
        CHECK(cudaStreamSynchronize(stream));
        // What the graph does not use any more may go.
        CHECK(cudaFree(in[k - 1]));
    }
    if (bad) CHECK(cudaFree(in[2]));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (!bad) print_digest("out", out, 100);
    if (!bad) CHECK(cudaFree(in[2]));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(out));
}
