// bug: memory from malloc is given to cudaFree
// expect: rule=invalid-free call=cuMemFree
#include "frees.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = filled(100);
    int *host = static_cast<int *>(std::malloc(400));
    if (bad) TRY(cudaFree(host));  // BUG
    std::free(host);
    CHECK(cudaFree(data));
}
