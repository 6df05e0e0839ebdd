// bug: a captured launch asks for less dynamic shared memory than its kernel uses
// expect: rule=shared-out-of-bounds-write function=reverse size=252
// expect: rule=shared-out-of-bounds-read function=reverse size=252
#include "case.h"

__global__ void reverse(int *data) {
    extern __shared__ int values[];
    int i = threadIdx.x;
    values[i] = data[i];  // BUG
    __syncthreads();
    data[i] = values[i ^ 1];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = upload(counting<int>(64));
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    reverse<<<1, 62, 256, stream>>>(data);
    reverse<<<1, 64, 256 - 4 * bad, stream>>>(data);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (!bad) print_digest("data", data, 64);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(data));
}
