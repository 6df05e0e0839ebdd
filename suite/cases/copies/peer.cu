// bug: a copy by the peer interface writes past its destination
// expect: rule=copy-out-of-bounds-write call=cuMemcpy size=200
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *from = upload(counting<int>(100));
    int *to = zeroed<int>(50);
    TRY(cudaMemcpyPeer(to, 0, from, 0, (50 + bad) * sizeof(int)));  // BUG
    use(to, 50);
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
}
