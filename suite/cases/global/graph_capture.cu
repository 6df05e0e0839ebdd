// bug: the faulty launch was captured into a graph, then replayed
// expect: rule=global-out-of-bounds-write function=accumulate size=404
#include "case.h"

__global__ void accumulate(int *data, int n) {
    int i = threadIdx.x;
    if (i < n)
        data[i] = data[i < 100 ? i : 100] + 1;  // BUG
}

int main() {
    const int n = 101;
    int *data = zeroed<int>(n);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    accumulate<<<1, 128, 0, stream>>>(data, n);
    accumulate<<<1, 128, 0, stream>>>(data, n + bad);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int k = 0; k < 3; k++) CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    print_digest("data", data, n);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}
