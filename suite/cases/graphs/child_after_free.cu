// bug: a graph within a graph within the graph uses a buffer that was freed
// expect: rule=use-after-free function=add size=400
#include "case.h"

__global__ void add(const int *in, int *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] += in[i];  // BUG
}

cudaGraph_t captured(const int *in, int *out, cudaStream_t stream) {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<1, 128, 0, stream>>>(in, out, 100);
    CHECK(cudaStreamEndCapture(stream, &graph));
    return graph;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *in = upload(counting<int>(100)), *other = upload(counting<int>(100));
    int *out = zeroed<int>(100);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    // Two levels: the inner graph is copied into the middle one, and that one
    // into the outer one.
    cudaGraph_t inner = captured(in, out, stream), middle, outer;
    cudaGraphNode_t node, within;
    CHECK(cudaGraphCreate(&middle, 0));
    CHECK(cudaGraphAddChildGraphNode(&within, middle, nullptr, 0, inner));
    CHECK(cudaGraphCreate(&outer, 0));
    CHECK(cudaGraphAddChildGraphNode(&node, outer, nullptr, 0, middle));
    CHECK(cudaGraphDestroy(inner));
    CHECK(cudaGraphDestroy(middle));
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, outer, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (bad) CHECK(cudaFree(in));
    // A buffer that comes is no reason to plan anything that is in use.
    int *later = zeroed<int>(100);
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (!bad) {
        // The program replaces the middle graph in the instantiated one.
        inner = captured(other, out, stream);
        CHECK(cudaGraphCreate(&middle, 0));
        CHECK(cudaGraphAddChildGraphNode(&within, middle, nullptr, 0, inner));
        CHECK(cudaGraphExecChildGraphNodeSetParams(executable, node, middle));
        CHECK(cudaGraphDestroy(inner));
        CHECK(cudaGraphDestroy(middle));
        CHECK(cudaFree(in));
        CHECK(cudaGraphLaunch(executable, stream));
        CHECK(cudaStreamSynchronize(stream));
        print_digest("out", out, 100);
    }
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(outer));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(other));
    CHECK(cudaFree(later));
    CHECK(cudaFree(out));
}
