// bug: the terminating zero of a string lands one byte behind its buffer
// expect: rule=global-out-of-bounds-write function=terminate size=37
#include "case.h"

__global__ void terminate(char *text, int length) {
    int i = threadIdx.x;
    if (i < length) text[i] = static_cast<char>('a' + i % 26);
    if (i == length)
        text[i] = 0;  // BUG
}

int main() {
    const int capacity = 37;  // an odd size: the edge is in the middle of a word
    char *text = zeroed<char>(capacity);
    terminate<<<1, 64>>>(text, capacity - 1 + bad);
    FINISH();
    print_digest("text", text, capacity - 1);
}
