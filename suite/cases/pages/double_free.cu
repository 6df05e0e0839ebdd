// bug: a buffer is freed twice
// run: protect=pages
// expect: rule=double-free call=cuMemFree size=1000
#include "case.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = zeroed<int>(250), *other = zeroed<int>(250);
    CHECK(cudaFree(data));
    if (bad) {
        const cudaError_t again = cudaFree(data);  // BUG
        if (again != cudaErrorInvalidValue) return 1;
        (void)cudaGetLastError();
    }
    CHECK(cudaFree(other));
    CHECK(cudaFree(nullptr));
}
