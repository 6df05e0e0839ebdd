// bug: a copy between two buffers reads past the shorter one
// expect: rule=copy-out-of-bounds-read call=cuMemcpyDtoD size=396
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *from = upload(counting<int>(99));
    int *to = zeroed<int>(100);
    TRY(cudaMemcpy(to, from, (99 + bad) * sizeof(int), cudaMemcpyDeviceToDevice));  // BUG
    use(to, 100);
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
}
