// bug: a thread block reads past the shared array of another block of its cluster
// build: arch=90
// expect: rule=shared-out-of-bounds-read function=exchange size=128
#include "case.h"
#include <cooperative_groups.h>

__global__ void __cluster_dims__(2, 1, 1) exchange(int *out, int shift) {
    namespace cg = cooperative_groups;
    __shared__ int own[32];
    cg::cluster_group cluster = cg::this_cluster();
    int i = threadIdx.x;
    own[i] = 100 * cluster.block_rank() + i;
    cluster.sync();
    const int *theirs = cluster.map_shared_rank(own, cluster.block_rank() ^ 1);
    int value = theirs[i + shift];  // BUG
    cluster.sync();
    out[blockIdx.x * 32 + i] = value;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(64);
    exchange<<<2, 32>>>(out, bad);
    FINISH();
    print_digest("out", out, 64);
    CHECK(cudaFree(out));
}
