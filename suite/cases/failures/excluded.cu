// bug: one of three kernels is not checked, and reads through a null pointer of a list
// run: kernel-name-exclude=_Z4walkPK4NodePi
// expect: rule=kernel-failed kernel=_Z4walkPK4NodePi error=700
#include "failed.h"

struct Node {
    const Node *next;
    int value;
};

__global__ void link(Node *nodes, int n, bool ends) {
    int i = threadIdx.x;
    if (i < n) nodes[i] = {i + 1 < n ? nodes + i + 1 : ends ? nullptr : nodes, i};
}

__global__ void walk(const Node *nodes, int *sum) {
    for (int i = 0; i < 65; i++) {
        *sum += nodes->value;  // BUG
        nodes = nodes->next;   // BUG
    }
}

__global__ void twice(int *sum) { *sum *= 2; }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    Node *nodes = zeroed<Node>(64);
    int *sum = zeroed<int>(1);
    link<<<1, 64>>>(nodes, 64, bad);
    CHECK(cudaDeviceSynchronize());
    if (bad) {
        walk<<<1, 1>>>(nodes, sum);  // BUG
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    twice<<<1, 1>>>(sum);
    FINISH();
    print_digest("sum", sum, 1);
    CHECK(cudaFree(nodes));
    CHECK(cudaFree(sum));
}
