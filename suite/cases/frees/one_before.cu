// bug: a pointer that was moved back to a header that is not there is freed
// expect: rule=invalid-free call=cuMemFree
#include "frees.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = filled(100);
    if (bad) TRY(cudaFree(data - 1));  // BUG
    CHECK(cudaFree(data));
}
