// bug: the last node of a list points one past its arena instead of nowhere
// expect: rule=global-out-of-bounds-read function=length size=320
#include "case.h"

struct Node {
    int value;
    int pad;
    Node *next;
};

__global__ void length(const Node *head, int *out) {
    int sum = 0;
    for (const Node *node = head; node != nullptr; node = node->next)  // BUG
        sum += node->value;  // BUG
    *out = sum;
}

int main() {
    const int n = 20;
    Node *arena = zeroed<Node>(n);
    std::vector<Node> nodes(n);
    for (int i = 0; i < n; i++) {
        nodes[i].value = i;
        nodes[i].pad = 0;
        nodes[i].next = i + 1 < n + bad ? arena + i + 1 : nullptr;
    }
    CHECK(cudaMemcpy(arena, nodes.data(), n * sizeof(Node), cudaMemcpyHostToDevice));
    int *out = zeroed<int>(1);
    length<<<1, 1>>>(arena, out);
    FINISH();
    print_digest("out", out, 1);
}
