// bug: a list whose links are both neighbours, xor-ed, is read past the end of a node
// expect: rule=global-out-of-bounds-read function=walk size=48
#include "case.h"
#include <cstdint>

struct Node {
    uint64_t link;
    int values[10];
};

__global__ void walk(Node *first, const Node *second, int count, int last, int *out) {
    uint64_t before = 0;
    Node *node = first;
    int sum = 0;
    for (int n = 0; n < count; n++) {
        for (int v = 0; v <= last; v++) sum = sum * 3 + node->values[v];  // BUG
        const uint64_t next = node->link ^ before;
        before = reinterpret_cast<uint64_t>(node);
        node = reinterpret_cast<Node *>(next);
    }
    out[0] = sum + (node == second);
}

int main() {
    Node *nodes[4];
    for (Node *&node : nodes) node = zeroed<Node>(1);
    for (int n = 0; n < 4; n++) {
        Node node = {};
        if (n > 0) node.link ^= reinterpret_cast<uint64_t>(nodes[n - 1]);
        if (n < 3) node.link ^= reinterpret_cast<uint64_t>(nodes[n + 1]);
        for (int v = 0; v < 10; v++) node.values[v] = n + v;
        CHECK(cudaMemcpy(nodes[n], &node, sizeof node, cudaMemcpyHostToDevice));
    }
    int *out = zeroed<int>(1);
    walk<<<1, 1>>>(nodes[0], nodes[1], 4, bad ? 10 : 9, out);
    FINISH();
    if (!bad) print_digest("out", out, 1);
}
