// bug: the rows of a copy are wider than the last row of its source
// expect: rule=copy-out-of-bounds-read call=cuMemcpy2D size=1000
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    // Five rows of 50 elements, 40 of which are to be copied from column 10.
    int *matrix = upload(counting<int>(250));
    int *part = zeroed<int>(5 * 41);
    TRY(cudaMemcpy2D(part, 41 * sizeof(int), matrix + 10, 50 * sizeof(int),  // BUG
                     (40 + bad) * sizeof(int), 5, cudaMemcpyDeviceToDevice));  // BUG
    use(part, 200);
    CHECK(cudaFree(matrix));
    CHECK(cudaFree(part));
}
