// bug: device memory is given to cudaFreeHost
// expect: rule=invalid-free call=cuMemFreeHost size=400
#include "frees.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = filled(100);
    if (bad) TRY(cudaFreeHost(data));  // BUG
    CHECK(cudaFree(data));
}
