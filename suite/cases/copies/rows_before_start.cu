// bug: rows are copied from a place in front of the buffer, not from the buffer
// expect: rule=copy-out-of-bounds-read call=cuMemcpy2D size=4096
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *from = upload(counting<int>(1024)), *to = zeroed<int>(1024);
    // Four rows of 8 elements, 32 apart.
    TRY(cudaMemcpy2D(to, 8 * sizeof(int), from - 40 * bad, 32 * sizeof(int), 8 * sizeof(int), 4,  // BUG
                     cudaMemcpyDefault));
    use(to, 32);
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
}
