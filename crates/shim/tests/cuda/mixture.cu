// A correct program that uses much of the runtime: pointers to device
// variables, managed memory, stream-ordered allocation, structs as parameters,
// large blocks, captured graphs and their parameters, host memory, fork.
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call)                                                                          \
    do {                                                                                     \
        cudaError_t error = (call);                                                          \
        if (error) printf("%d %s: %s\n", __LINE__, #call, cudaGetErrorString(error));        \
    } while (0)

__device__ int table[16];
__device__ int *pointer = table;
__managed__ int managed[8];

__global__ void through_pointer(int *out) {
    int i = threadIdx.x;
    pointer[i] = i;
    out[i] = pointer[i];
}
__global__ void use_managed() { managed[threadIdx.x] = threadIdx.x; }
__global__ void fill(int *p, int n, int first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = first + i;
}
struct Large {
    int *p;
    int n;
    double values[40];
};
__global__ void from_struct(Large large) {
    int i = threadIdx.x;
    if (i < large.n) large.p[i] = (int)large.values[i % 40];
}
__global__ void __launch_bounds__(1024) wide(int *p) { p[threadIdx.x] = threadIdx.x; }

int main() {
    setvbuf(stdout, nullptr, _IONBF, 0);
    int *small, host[16];
    CHECK(cudaMalloc(&small, 64));
    through_pointer<<<1, 16>>>(small);
    CHECK(cudaMemcpy(host, small, 64, cudaMemcpyDeviceToHost));
    printf("pointer %d %d\n", host[3], host[15]);
    use_managed<<<1, 8>>>();
    CHECK(cudaDeviceSynchronize());
    printf("managed %d\n", managed[7]);
    int symbol[16];
    CHECK(cudaMemcpyFromSymbol(symbol, table, 64));
    printf("symbol %d\n", symbol[9]);

    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *first, *second;
    CHECK(cudaMallocAsync(&first, 1000, stream));
    fill<<<1, 256, 0, stream>>>(first, 250, 5);
    CHECK(cudaFreeAsync(first, stream));
    CHECK(cudaMallocAsync(&second, 500, stream));
    fill<<<1, 256, 0, stream>>>(second, 125, 5);
    CHECK(cudaFreeAsync(second, stream));
    CHECK(cudaStreamSynchronize(stream));

    Large large = {small, 16, {}};
    for (int i = 0; i < 40; i++) large.values[i] = i;
    from_struct<<<1, 32>>>(large);
    CHECK(cudaMemcpy(host, small, 64, cudaMemcpyDeviceToHost));
    printf("struct %d\n", host[15]);

    int *page, last;
    CHECK(cudaMalloc(&page, 4096));
    wide<<<1, 1024>>>(page);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    fill<<<4, 256, 0, stream>>>(page, 1024, 1);
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphNode_t node;
    size_t count = 1;
    cudaKernelNodeParams parameters;
    CHECK(cudaGraphGetNodes(graph, &node, &count));
    CHECK(cudaGraphKernelNodeGetParams(node, &parameters));
    printf("node is ours: %d\n", parameters.func == (void *)fill);
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&last, page + 1023, 4, cudaMemcpyDeviceToHost));
    printf("graph %d\n", last);
    int elements = 1024, start = 7;
    void *arguments[] = {&page, &elements, &start};
    parameters.kernelParams = arguments;
    CHECK(cudaGraphExecKernelNodeSetParams(executable, node, &parameters));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&last, page + 1023, 4, cudaMemcpyDeviceToHost));
    printf("changed graph %d\n", last);

    int *pinned;
    CHECK(cudaMallocHost(&pinned, 400));
    fill<<<1, 128>>>(pinned, 100, 9);
    CHECK(cudaDeviceSynchronize());
    printf("pinned %d\n", pinned[99]);
    int *registered = (int *)malloc(4096);
    CHECK(cudaHostRegister(registered, 4096, 0));
    fill<<<1, 128>>>(registered, 100, 9);
    CHECK(cudaDeviceSynchronize());
    printf("registered %d\n", registered[99]);
    CHECK(cudaHostUnregister(registered));

    pid_t child = fork();
    if (!child) _exit(cudaMalloc(&small, 4) == cudaErrorInitializationError ? 3 : 4);
    int status;
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    CHECK(cudaFree(small));
    CHECK(cudaDeviceReset());
    return 0;
}
