// Launches of every kind, for the test of their times: `scale` can be proved in
// bounds, `gather` cannot; two nodes of a graph are captured, and the graph
// runs twice; while it is captured another stream has a launch.
#include <cstdio>
#include <cstring>

__global__ void scale(int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] *= 2;
}

__global__ void gather(const int *index, const int *from, int *to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[index[i]];
}

int main(int argc, char **argv) {
    const int n = 256;
    int host[n], *index, *from, *to;
    cudaMalloc(&index, sizeof host);
    cudaMalloc(&from, sizeof host);
    cudaMalloc(&to, sizeof host);
    for (int i = 0; i < n; i++) host[i] = n - 1 - i;
    cudaMemcpy(index, host, sizeof host, cudaMemcpyHostToDevice);
    cudaMemcpy(from, host, sizeof host, cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; i++) scale<<<1, n>>>(from, n);
    for (int i = 0; i < 2; i++) gather<<<1, n>>>(index, from, to, n);
    // A launch that fails is none.
    scale<<<1, 4096>>>(from, n);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));

    cudaStream_t stream, other;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaDeviceSynchronize();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    scale<<<1, n, 0, stream>>>(to, n);
    scale<<<1, n, 0, other>>>(from, n);
    gather<<<1, n, 0, stream>>>(index, to, from, n);
    cudaStreamEndCapture(stream, &graph);
    cudaStreamSynchronize(other);
    cudaGraphInstantiate(&exec, graph, 0);
    for (int i = 0; i < 2; i++) cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    cudaMemcpy(host, from, sizeof host, cudaMemcpyDeviceToHost);
    printf("%d %d %s\n", host[0], host[7], cudaGetErrorName(cudaGetLastError()));
    // The times must be read before the context goes.
    if (argc > 1 && !strcmp(argv[1], "reset")) cudaDeviceReset();
    return 0;
}
