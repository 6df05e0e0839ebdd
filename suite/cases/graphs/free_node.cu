// bug: a kernel uses memory that a graph has allocated and freed
// expect: rule=use-after-free function=sum size=400
#include "case.h"

__global__ void fill(int *numbers, int first) { numbers[threadIdx.x] = first + threadIdx.x; }

__global__ void sum(const int *numbers, int *out) { atomicAdd(out, numbers[threadIdx.x]); }  // BUG

// A kernel node after another node, or after none.
template <typename... Parameters, typename... Arguments>
cudaGraphNode_t launch(cudaGraph_t graph, cudaGraphNode_t after, void (*kernel)(Parameters...),
                       Arguments... arguments) {
    void *list[] = {&arguments...};
    cudaKernelNodeParams how = {};
    how.func = reinterpret_cast<void *>(kernel);
    how.gridDim = dim3(1);
    how.blockDim = dim3(100);
    how.kernelParams = list;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after ? &after : nullptr, after ? 1 : 0, &how));
    return node;
}

cudaGraphNode_t allocate(cudaGraph_t graph, int **numbers) {
    cudaMemAllocNodeParams how = {};
    how.poolProps.allocType = cudaMemAllocationTypePinned;
    how.poolProps.location.type = cudaMemLocationTypeDevice;
    how.bytesize = 400;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &how));
    *numbers = static_cast<int *>(how.dptr);
    return node;
}

cudaGraphExec_t ready(cudaGraph_t graph) {
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    return executable;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(1), *own, *kept;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    // One graph has memory of its own, one leaves some behind, which the third
    // frees.
    cudaGraph_t whole, makes, ends;
    CHECK(cudaGraphCreate(&whole, 0));
    CHECK(cudaGraphCreate(&makes, 0));
    CHECK(cudaGraphCreate(&ends, 0));
    cudaGraphNode_t node = allocate(whole, &own);
    node = launch(whole, node, fill, own, 1);
    node = launch(whole, node, sum, own, out);
    CHECK(cudaGraphAddMemFreeNode(&node, whole, &node, 1, own));
    node = allocate(makes, &kept);
    launch(makes, node, fill, kept, 1000);
    CHECK(cudaGraphAddMemFreeNode(&node, ends, nullptr, 0, kept));
    const cudaGraphExec_t first = ready(whole), second = ready(makes), third = ready(ends);
    for (int i = 0; i < 3; i++) {
        CHECK(cudaGraphLaunch(first, stream));
        CHECK(cudaGraphLaunch(second, stream));
        sum<<<1, 100, 0, stream>>>(kept, out);
        if (i == 1) CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaGraphLaunch(third, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    if (bad) sum<<<1, 100, 0, stream>>>(kept, out);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));
    if (!bad) print_digest("out", out, 1);
    for (cudaGraphExec_t executable : {first, second, third}) CHECK(cudaGraphExecDestroy(executable));
    for (cudaGraph_t graph : {whole, makes, ends}) CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(out));
}
