// bug: an address a page before a buffer, where its canary begins, is freed
// expect: rule=invalid-free call=cuMemFree
#include "frees.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = filled(100);
    if (bad) TRY(cudaFree(data - 1024));  // BUG
    int *more = filled(100);
    CHECK(cudaFree(data));
    CHECK(cudaFree(more));
}
