// bug: the second launch of a graph finds a counter that its assertion does not allow
// expect: rule=kernel-failed kernel=_Z5countPii error=710
#include "failed.h"
#undef NDEBUG
#include <cassert>

__global__ void count(int *counter, int most) {
    assert(*counter < most);  // BUG
    *counter += 1;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *counter = zeroed<int>(1);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    count<<<1, 1, 0, stream>>>(counter, 2 - bad);  // BUG
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphLaunch(exec, stream));
    if (bad) {
        EXPECT_FAILURE(cudaErrorAssert);  // BUG
        return 0;
    }
    FINISH();
    print_digest("counter", counter, 1);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(counter));
}
