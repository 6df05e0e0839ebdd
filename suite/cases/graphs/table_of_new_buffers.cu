// bug: a replayed graph reads, through a table that was filled anew, past the end of a new buffer
// expect: rule=global-out-of-bounds-read function=sum size=400
#include "case.h"

__global__ void sum(int *const *table, int *out, const int *n) {
    int i = threadIdx.x;
    if (i < *n) out[i] = table[0][i] + table[1][i];  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(128), *n = upload(std::vector<int>{64});
    int *data[2] = {zeroed<int>(64), zeroed<int>(64)};
    int **table = upload(std::vector<int *>{data[0], data[1]});
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    sum<<<1, 128, 0, stream>>>(table, out, n);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int *&old : data) {
        CHECK(cudaFree(old));
        old = upload(counting<int>(100));
    }
    CHECK(cudaMemcpy(table, data, sizeof data, cudaMemcpyHostToDevice));
    int count = 100 + bad;
    CHECK(cudaMemcpy(n, &count, sizeof count, cudaMemcpyHostToDevice));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    print_digest("out", out, 100);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    for (int *old : data) CHECK(cudaFree(old));
    CHECK(cudaFree(table));
    CHECK(cudaFree(out));
    CHECK(cudaFree(n));
}
