// bug: managed memory is never freed
// run: leak-check=full
// expect: rule=memory-leak leak size=2000
#include "frees.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = filled(100);
    int *managed = nullptr;
    CHECK(cudaMallocManaged(&managed, 2000));  // BUG
    managed[3] = 1;
    if (!bad) CHECK(cudaFree(managed));
    CHECK(cudaFree(data));
}
