// bug: a set of rows has the pitch of another image
// expect: rule=copy-out-of-bounds-write call=cuMemset size=2000
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *image = upload(counting<int>(500));
    TRY(cudaMemset2D(image, (bad ? 60 : 50) * sizeof(int), 0, 40 * sizeof(int), 10));  // BUG
    use(image, 500);
    CHECK(cudaFree(image));
}
