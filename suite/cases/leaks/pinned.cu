// bug: pinned host memory is never freed
// run: leak-check=full
// expect: rule=memory-leak leak size=3000
#include "frees.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = filled(100);
    int *host = nullptr;
    CHECK(cudaMallocHost(&host, 3000));  // BUG
    host[3] = 1;
    if (!bad) CHECK(cudaFreeHost(host));
    CHECK(cudaFree(data));
}
