// bug: a copy node of a graph is longer than its destination
// expect: rule=copy-out-of-bounds-write call=cuGraph size=400
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *from = upload(counting<int>(128));
    int *to = zeroed<int>(100);
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t executable;
    CHECK(cudaGraphCreate(&graph, 0));
    TRY(cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, to, from, 400 + 4 * bad,  // BUG
                                 cudaMemcpyDeviceToDevice));  // BUG
    TRY(cudaGraphInstantiate(&executable, graph, 0));
    TRY(cudaGraphLaunch(executable, nullptr));  // BUG
    CHECK(cudaDeviceSynchronize());
    use(to, 100);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
}
