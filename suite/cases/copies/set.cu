// bug: a set counts elements where bytes are meant, in the wrong direction
// expect: rule=copy-out-of-bounds-write call=cuMemset size=100
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 100;
    unsigned char *bytes = nullptr;
    int *data = zeroed<int>(n);
    CHECK(cudaMalloc(&bytes, n));
    TRY(cudaMemset(bytes, 1, bad ? n * sizeof(int) : n));  // BUG
    use(data, n);
    CHECK(cudaFree(bytes));
    CHECK(cudaFree(data));
}
