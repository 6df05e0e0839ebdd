// bug: pinned host memory is given to cudaFree
// expect: rule=invalid-free call=cuMemFree size=400
#include "frees.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = filled(100);
    int *host = nullptr;
    CHECK(cudaMallocHost(&host, 400));
    if (bad) TRY(cudaFree(host));  // BUG
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(data));
}
