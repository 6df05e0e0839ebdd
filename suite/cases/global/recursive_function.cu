// bug: a recursive tree walk descends below the leaves
// expect: rule=global-out-of-bounds-read function=tree_sum size=60
#include "case.h"

__device__ __noinline__ int tree_sum(const int *tree, int node, int depth) {
    int sum = tree[node];  // BUG
    if (depth == 0) return sum;
    return sum + tree_sum(tree, 2 * node + 1, depth - 1) + tree_sum(tree, 2 * node + 2, depth - 1);
}

__global__ void total(const int *tree, int *out, int depth) { *out = tree_sum(tree, 0, depth); }

int main() {
    const int nodes = 15;  // four levels
    int *tree = upload(counting<int>(nodes));
    int *out = zeroed<int>(1);
    total<<<1, 1>>>(tree, out, 3 + bad);
    FINISH();
    print_digest("out", out, 1);
}
