// bug: a captured copy is replayed after its source was freed
// expect: rule=use-after-free call=cuGraphLaunch size=400
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *from = upload(counting<int>(100)), *other = upload(counting<int>(100));
    int *to = zeroed<int>(100);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(to, 0, 400, stream));
    CHECK(cudaMemcpyAsync(to, from, 400, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    use(to, 100);
    CHECK(cudaFree(bad ? from : other));
    TRY(cudaGraphLaunch(executable, stream));  // BUG
    CHECK(cudaStreamSynchronize(stream));
    use(to, 100);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(bad ? other : from));
    CHECK(cudaFree(to));
}
