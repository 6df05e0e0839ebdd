// bug: pinned host memory is freed twice
// expect: rule=double-free call=cuMemFreeHost size=400
#include "frees.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = filled(100);
    int *host = nullptr;
    CHECK(cudaMallocHost(&host, 400));
    CHECK(cudaFreeHost(host));
    if (bad) TRY(cudaFreeHost(host));  // BUG
    CHECK(cudaFree(data));
}
