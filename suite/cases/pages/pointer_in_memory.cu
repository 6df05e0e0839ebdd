// bug: a kernel follows a pointer in memory to a buffer that was freed
// run: protect=pages
// expect: rule=kernel-failed kernel=_Z4walkPK4NodePi error=700 size=16
#include "failed.h"

struct Node {
    const Node *next;
    int value;
};

__global__ void walk(const Node *node, int *sum) {
    for (; node; node = node->next) *sum += node->value;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *sum = zeroed<int>(1);
    std::vector<Node *> nodes;
    const Node *next = nullptr;
    for (int i = 0; i < 30; i++) {
        nodes.push_back(upload(std::vector<Node>{{next, i}}));
        next = nodes.back();
    }
    if (bad) CHECK(cudaFree(nodes[11]));
    walk<<<1, 1>>>(next, sum);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    print_digest("sum", sum, 1);
    for (Node *node : nodes) CHECK(cudaFree(node));
    CHECK(cudaFree(sum));
}
