// bug: a graph reads a buffer, through a pointer in memory, that was freed between two of its launches
// run: protect=shadow
// expect: rule=use-after-free function=gather size=800
#include "case.h"

// Buffers that are made or freed after the last launch of a kernel by itself are known
// to the next launch of a graph, too, small ones and those that Ringfence maps.
__global__ void gather(int *const *where, int *out) {
    const int *from = where[blockIdx.x];
    atomicAdd(out + threadIdx.x, from[threadIdx.x]);  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int *> buffers(4);
    for (int *&buffer : buffers) CHECK(cudaMalloc(&buffer, 800));
    for (int *buffer : buffers) CHECK(cudaMemset(buffer, 1, 800));
    int **where = upload(buffers);
    int *out = zeroed<int>(64);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    gather<<<4, 64, 0, stream>>>(where, out);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    gather<<<4, 64, 0, stream>>>(where, out);
    CHECK(cudaStreamSynchronize(stream));
    const size_t sizes[] = {800, 3000000, 40000000, 2000};
    for (int i = 0; i < 4; i++) {
        int *other;
        CHECK(cudaMalloc(&other, sizes[i]));
        CHECK(cudaMemset(other, i, sizes[i]));
        CHECK(cudaMemcpy(where + i, &other, sizeof other, cudaMemcpyHostToDevice));
        CHECK(cudaFree(buffers[i]));
        buffers[i] = other;
        CHECK(cudaGraphLaunch(ready, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
    if (bad) CHECK(cudaFree(buffers[0]));
    CHECK(cudaGraphLaunch(ready, stream));
    CHECK(cudaStreamSynchronize(stream));
    print_digest("out", out, 64);
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    for (int i = bad; i < 4; i++) CHECK(cudaFree(buffers[i]));
    CHECK(cudaFree(where));
    CHECK(cudaFree(out));
}
