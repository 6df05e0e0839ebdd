// Copies and sets by the host through every call that the runtime has for
// them. Without an argument all of them end exactly where their memory does;
// with one, each reaches one byte, element or row too far. Prints the error
// that each call answers.
#include <cstdio>
#include <cstdlib>
#include <cstring>

static int line;
static void did(const char *what, cudaError_t error) {
    printf("%d %s %d\n", ++line, what, (int)error);
    cudaGetLastError();
}

__device__ char variable[100];
__constant__ char constant[60];

int main(int count, char **) {
    setvbuf(stdout, nullptr, _IONBF, 0);
    const size_t n = 1000, more = count > 1 ? 1 : 0;
    char *host = (char *)calloc(1, 1 << 20);
    char *a, *b, *managed, *pinned, *pool, *registered = (char *)malloc(8192);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMalloc(&a, n);
    cudaMalloc(&b, n);
    cudaMallocManaged(&managed, n);
    cudaMallocHost(&pinned, n);
    cudaMallocAsync(&pool, n, stream);
    cudaHostRegister(registered, 4000, cudaHostRegisterDefault);

    did("HostToDevice", cudaMemcpy(a, host, n + more, cudaMemcpyHostToDevice));
    did("DeviceToHost", cudaMemcpy(host, a, n + more, cudaMemcpyDeviceToHost));
    did("DeviceToDevice", cudaMemcpy(a, b + 500, 500 + more, cudaMemcpyDeviceToDevice));
    did("Default", cudaMemcpy(host, a + 999, 1 + more, cudaMemcpyDefault));
    did("managed", cudaMemcpy(managed, host, n + more, cudaMemcpyDefault));
    did("pinned", cudaMemcpy(a, pinned + 100, 900 + more, cudaMemcpyHostToDevice));
    did("pool", cudaMemcpyAsync(pool, host, n + more, cudaMemcpyHostToDevice, stream));
    did("registered", cudaMemcpy(registered + 3900, a, 100 + more, cudaMemcpyDeviceToHost));
    did("async", cudaMemcpyAsync(a, b, n + more, cudaMemcpyDeviceToDevice, stream));
    did("peer", cudaMemcpyPeer(a, 0, b, 0, n + more));
    // 8 rows of 100 bytes, 128 apart, are 996 bytes.
    did("2D", cudaMemcpy2D(a, 128, host, 100, 100, 8 + more, cudaMemcpyHostToDevice));
    did("2D width", cudaMemcpy2DAsync(host, 200, a + 4, 128, 100 + more, 8, cudaMemcpyDeviceToHost, stream));
    cudaMemcpy3DParms box = {};
    // 2 slices of 4 rows of 100 bytes: 124 rows apart would be too far.
    box.srcPtr = make_cudaPitchedPtr(host, 100, 100, 4);
    box.dstPtr = make_cudaPitchedPtr(a, 125, 125, 4);
    box.dstPos = make_cudaPos(25, 0, 0);
    box.extent = make_cudaExtent(100, 4, 2 + more);
    box.kind = cudaMemcpyHostToDevice;
    did("3D", cudaMemcpy3D(&box));
    did("set", cudaMemset(a, 0, n + more));
    did("set async", cudaMemsetAsync(pool, 0, n + more, stream));
    did("set 2D", cudaMemset2D(a, 250, 1, 250, 4 + more));
    did("to symbol", cudaMemcpyToSymbol(variable, host, 100 + more));
    did("from symbol", cudaMemcpyFromSymbol(host, constant, 20 + more, 40));
    char *address;
    cudaGetSymbolAddress((void **)&address, variable);
    did("by address", cudaMemcpy(address + 50, host, 50 + more, cudaMemcpyHostToDevice));
    cudaStreamSynchronize(stream);

    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphCreate(&graph, 0);
    did("graph copy", cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, a, b, n + more, cudaMemcpyDeviceToDevice));
    cudaMemsetParams set = {};
    set.dst = a, set.elementSize = 4, set.width = 250 + more, set.height = 1;
    did("graph set", cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &set));
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    did("captured", cudaMemcpyAsync(a, pinned, n + more, cudaMemcpyHostToDevice, stream));
    cudaStreamEndCapture(stream, &graph);

    // Memory that is none of the device's, on either side; empty copies.
    did("host", cudaMemcpy(host, host + 600000, 300000, cudaMemcpyDefault));
    did("empty", cudaMemcpy(a + 1000, host, 0, cudaMemcpyHostToDevice));
    did("part", cudaMemcpy(a, registered + 3000, 900, cudaMemcpyHostToDevice));
    did("beside", cudaMemcpy(a, registered + 4000, 900, cudaMemcpyHostToDevice));
    if (more) {
        int local;
        did("not the device's", cudaMemcpy(host, &local, 4, cudaMemcpyDeviceToHost));
        cudaFree(b);
        did("freed", cudaMemcpy(host, b, 4, cudaMemcpyDeviceToHost));
        did("freed", cudaMemset(b, 0, 4));
    }
}
