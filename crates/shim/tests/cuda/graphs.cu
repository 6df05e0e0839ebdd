// Graphs whose nodes the program makes itself, cloned, nested and updated; and
// threads that allocate, copy and launch at once, each in its own stream. With
// an argument one kernel, which is named after how it got into its graph,
// reaches too far.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define CHECK(call)                                                                   \
    do {                                                                              \
        cudaError_t error = (call);                                                   \
        if (error) printf("%d %s: %s\n", __LINE__, #call, cudaGetErrorString(error)); \
    } while (0)

__global__ void added(int *p, int n) { if (threadIdx.x < n) p[threadIdx.x] += 1; }
__global__ void changed(int *p, int n) { if (threadIdx.x < n) p[threadIdx.x] += 1; }
__global__ void instantiated(int *p, int n) { if (threadIdx.x < n) p[threadIdx.x] += 1; }
__global__ void nested(int *p, int n) { if (threadIdx.x < n) p[threadIdx.x] += 1; }
__global__ void threaded(int *p, int n, int thread) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] += thread;
}

static cudaKernelNodeParams with(void *kernel, int **p, int *n) {
    static void *arguments[8][2];
    static int next;
    void **slot = arguments[next++ % 8];
    slot[0] = p, slot[1] = n;
    cudaKernelNodeParams parameters = {};
    parameters.func = kernel, parameters.gridDim = 1, parameters.blockDim = 64;
    parameters.kernelParams = slot;
    return parameters;
}

static void worker(int thread, int more, int *wrong) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int round = 0; round < 40; round++) {
        int n = 100 + 37 * thread + round, *p, *q;
        std::vector<int> host(n, round);
        CHECK(cudaMalloc(&p, n * 4));
        CHECK(cudaMallocAsync(&q, n * 4, stream));
        CHECK(cudaMemcpyAsync(p, host.data(), n * 4, cudaMemcpyHostToDevice, stream));
        threaded<<<(n + 63) / 64, 64, 0, stream>>>(p, n + more, thread);
        CHECK(cudaMemcpyAsync(q, p, n * 4, cudaMemcpyDeviceToDevice, stream));
        threaded<<<(n + 63) / 64, 64, 0, stream>>>(q, n, thread);
        CHECK(cudaMemcpyAsync(host.data(), q, n * 4, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int value : host) *wrong += value != round + 2 * thread;
        CHECK(cudaFreeAsync(q, stream));
        CHECK(cudaFree(p));
    }
    CHECK(cudaStreamDestroy(stream));
}

int main(int count, char **arguments) {
    setvbuf(stdout, nullptr, _IONBF, 0);
    int bug = count > 1 ? atoi(arguments[1]) : 0;
    int *a, *b, small = 10, right = 20, wide = 40;
    CHECK(cudaMalloc(&a, 20 * 4));
    CHECK(cudaMalloc(&b, 40 * 4));
    CHECK(cudaMemset(a, 0, 80));
    CHECK(cudaMemset(b, 0, 160));
    int too_far = 21;
    int *n = &right;

    cudaGraph_t graph, child, clone;
    cudaGraphNode_t first, second, third, fourth;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&child, 0));
    cudaKernelNodeParams parameters = with((void *)added, &a, bug == 1 ? &too_far : n);
    CHECK(cudaGraphAddKernelNode(&first, graph, nullptr, 0, &parameters));
    parameters = with((void *)changed, &a, &small);
    CHECK(cudaGraphAddKernelNode(&second, graph, &first, 1, &parameters));
    parameters = with((void *)changed, &a, bug == 2 ? &too_far : n);
    CHECK(cudaGraphKernelNodeSetParams(second, &parameters));
    parameters = with((void *)instantiated, &a, &small);
    CHECK(cudaGraphAddKernelNode(&third, graph, &second, 1, &parameters));
    parameters = with((void *)nested, &a, bug == 4 ? &too_far : n);
    CHECK(cudaGraphAddKernelNode(&fourth, child, nullptr, 0, &parameters));
    CHECK(cudaGraphAddChildGraphNode(&fourth, graph, &third, 1, child));
    CHECK(cudaGraphClone(&clone, graph));
    cudaGraphExec_t one, two;
    CHECK(cudaGraphInstantiate(&one, graph, 0));
    CHECK(cudaGraphInstantiate(&two, clone, 0));
    // A buffer that only the executable graph has: larger than the other.
    int beyond = 41;
    parameters = with((void *)instantiated, &b, bug == 3 ? &beyond : &wide);
    CHECK(cudaGraphExecKernelNodeSetParams(one, third, &parameters));
    for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(one, 0));
    CHECK(cudaGraphLaunch(two, 0));
    CHECK(cudaDeviceSynchronize());
    int host[40];
    CHECK(cudaMemcpy(host, a, 80, cudaMemcpyDeviceToHost));
    printf("a %d %d\n", host[0], host[19]);
    CHECK(cudaMemcpy(host, b, 160, cudaMemcpyDeviceToHost));
    printf("b %d %d\n", host[0], host[39]);

    std::vector<std::thread> threads;
    int wrong[6] = {};
    for (int thread = 0; thread < 6; thread++)
        threads.emplace_back(worker, thread, bug == 5 && thread == 3 ? 1 : 0, &wrong[thread]);
    for (auto &thread : threads) thread.join();
    int sum = 0;
    for (int each : wrong) sum += each;
    printf("threads %d %s\n", sum, cudaGetErrorString(cudaGetLastError()));
}
