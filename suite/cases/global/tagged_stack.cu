// bug: of a node that was popped from a stack of tagged pointers, the one after the last is read
// expect: rule=global-out-of-bounds-read function=drain size=1600
#include "case.h"

struct Node {
    unsigned long long below;
    int value, pad;
};

// Counter in the upper 16 bits, address in the others.
__device__ unsigned long long top;
constexpr unsigned long long ADDRESS = 0xffffffffffff, ONE = 1ull << 48;

__global__ void push(Node *nodes, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    nodes[i].value = i;
    unsigned long long seen = top, old;
    do {
        old = seen;
        nodes[i].below = old;
        const unsigned long long counted = (old & ~ADDRESS) + ONE;
        seen = atomicCAS(&top, old, counted | reinterpret_cast<unsigned long long>(nodes + i));
    } while (seen != old);
}

__device__ Node *pop() {
    unsigned long long old = *const_cast<volatile unsigned long long *>(&top);
    while (true) {
        Node *node = reinterpret_cast<Node *>(old & ADDRESS);
        if (!node) return nullptr;
        const unsigned long long below = *const_cast<volatile unsigned long long *>(&node->below);
        const unsigned long long counted = (old & ~ADDRESS) + ONE;
        const unsigned long long seen = atomicCAS(&top, old, counted | (below & ADDRESS));
        if (seen == old) return node;
        old = seen;
    }
}

__global__ void drain(int *out, int next) {
    while (Node *node = pop()) out[node->value] = node[next].value + 1;  // BUG
}

int main() {
    Node *nodes = zeroed<Node>(100);
    int *out = zeroed<int>(100);
    push<<<1, 128>>>(nodes, 100);
    drain<<<2, 32>>>(out, bad);
    FINISH();
    if (!bad) print_digest("out", out, 100);
}
