// bug: of counters that are spread over a cluster, each block clears one too many
// build: arch=90 flags=-G
// expect: rule=shared-out-of-bounds-write function=count
#include "case.h"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// Without optimization the address in another block is what a function returns.
// Each block also asks for addresses in its own memory that way.
__global__ void __cluster_dims__(4) count(const int *in, int n, int *out, int bins, int more) {
    __shared__ int counters[16];
    cg::cluster_group cluster = cg::this_cluster();
    const int each = bins / 4;
    for (int i = threadIdx.x; i < each + more; i += blockDim.x) counters[i] = 0;  // BUG
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int *theirs = cluster.map_shared_rank(counters, in[i] / each);
        atomicAdd(theirs + in[i] % each, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < each; i += blockDim.x)
        out[cluster.block_rank() * each + i] = counters[i];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int> values(1000);
    for (size_t i = 0; i < values.size(); i++) values[i] = (i * 37) % 64;
    int *in = upload(values), *out = zeroed<int>(64);
    count<<<4, 64>>>(in, 1000, out, 64, bad);
    FINISH();
    print_digest("out", out, 64);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
