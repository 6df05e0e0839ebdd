// bug: a buffer of each round but the last is never freed
// run: leak-check=full
// expect: rule=memory-leak leak size=1000
#include "frees.h"

int *scratch(int n) {
    int *buffer = nullptr;
    CHECK(cudaMalloc(&buffer, n * sizeof(int)));  // BUG
    return buffer;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = filled(100);
    int *buffer = nullptr;
    for (int round = 0; round < 3; round++) {
        if (!bad && buffer) CHECK(cudaFree(buffer));
        buffer = scratch(250);
    }
    CHECK(cudaFree(buffer));
    CHECK(cudaFree(data));
}
