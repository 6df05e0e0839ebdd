// Copies and sets that are right, in the ways that are easily taken for wrong:
// memory of graphs that are launched again, pitched rows, symbols, host memory
// that was pinned before or is pinned in parts, a device that was reset.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                   \
    do {                                                                              \
        cudaError_t error = (call);                                                   \
        if (error) printf("%d %s: %s\n", __LINE__, #call, cudaGetErrorString(error)); \
    } while (0)

__global__ void fill(int *p, int n, int v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = v;
}
__constant__ int constant[10];
__managed__ int managed[7];
__device__ int variable[3][5];

static void graph_memory(cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    int *host, *p;
    CHECK(cudaMallocHost(&host, 1000));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&p, 1000, stream));
    fill<<<1, 256, 0, stream>>>(p, 250, 3);
    CHECK(cudaMemsetAsync(p, 0, 4, stream));
    CHECK(cudaMemcpyAsync(host, p, 1000, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(p, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; i++) {
        CHECK(cudaGraphLaunch(executable, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaDeviceSynchronize());
        printf("%d %d\n", host[0], host[249]);
    }
}

static void rows(cudaStream_t stream) {
    char *p;
    size_t pitch;
    CHECK(cudaMallocPitch(&p, &pitch, 100, 9));
    std::vector<char> host(pitch * 9, 1);
    CHECK(cudaMemcpy2D(p, pitch, host.data(), 100, 100, 9, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(p, pitch, host.data(), pitch, pitch, 9, cudaMemcpyHostToDevice));
    CHECK(cudaMemset2D(p, pitch, 0, 100, 9));
    CHECK(cudaMemcpy(p, host.data(), pitch * 9, cudaMemcpyHostToDevice));
    cudaPitchedPtr box;
    CHECK(cudaMalloc3D(&box, make_cudaExtent(60, 5, 4)));
    CHECK(cudaMemset3D(box, 1, make_cudaExtent(60, 5, 4)));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(host.data(), 60, 60, 5);
    copy.dstPtr = box;
    copy.extent = make_cudaExtent(60, 5, 4);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    copy.kind = cudaMemcpyDefault;
    CHECK(cudaMemcpy3DAsync(&copy, stream));
}

static void symbols() {
    int host[10] = {};
    CHECK(cudaMemcpyToSymbol(constant, host, 40));
    CHECK(cudaMemcpyFromSymbol(host, constant, 20, 20));
    CHECK(cudaMemcpyToSymbol(variable, host, 20, 40));
    managed[6] = 4;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host, managed, 28, cudaMemcpyDefault));
    CHECK(cudaMemcpy(managed, host, 28, cudaMemcpyHostToDevice));
}

// Addresses of memory that was pinned are the program's own again.
static void host_memory() {
    for (int i = 0; i < 20; i++) {
        char *pinned, *p, *own;
        CHECK(cudaMallocHost(&pinned, 1 << 20));
        CHECK(cudaFreeHost(pinned));
        own = (char *)malloc(3 << 20);
        memset(own, 1, 3 << 20);
        CHECK(cudaMalloc(&p, 3 << 20));
        CHECK(cudaMemcpy(p, own, 3 << 20, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(p, own, 3 << 20, cudaMemcpyDefault));
        CHECK(cudaFree(p));
        free(own);
    }
    char *own = (char *)malloc(1 << 16), *p;
    CHECK(cudaMalloc(&p, 1 << 16));
    for (int i = 0; i < 3; i++) {
        CHECK(cudaHostRegister(own, 1 << 12, 0));
        CHECK(cudaHostUnregister(own));
        CHECK(cudaMemcpy(p, own, 1 << 16, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(own, p, 1 << 16, cudaMemcpyDefault));
    }
    CHECK(cudaHostRegister(own, 4096, 0));
    CHECK(cudaHostRegister(own + 4096, 4096, 0));
    CHECK(cudaMemcpy(p, own, 8192, cudaMemcpyHostToDevice));
}

int main() {
    setvbuf(stdout, nullptr, _IONBF, 0);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    graph_memory(stream);
    rows(stream);
    symbols();
    host_memory();
    CHECK(cudaDeviceReset());
    char *own = (char *)malloc(2 << 20), *p;
    CHECK(cudaMalloc(&p, 2 << 20));
    CHECK(cudaMemcpy(p, own, 2 << 20, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(p, 0, 2 << 20));
    puts("end");
}
