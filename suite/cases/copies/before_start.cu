// bug: a copy between buffers starts one element before its source, and a set before its target
// expect: rule=copy-out-of-bounds-read call=cuMemcpyAsync size=400
// expect: rule=copy-out-of-bounds-write call=cuMemsetD8Async size=400
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *from = upload(counting<int>(100)), *to = zeroed<int>(100);
    TRY(cudaMemcpyAsync(to, from - bad, 100 * sizeof(int), cudaMemcpyDefault, 0));  // BUG
    CHECK(cudaStreamSynchronize(0));
    TRY(cudaMemsetAsync(from - bad, 0, sizeof(int), 0));  // BUG
    CHECK(cudaStreamSynchronize(0));
    use(to, 100);
    CHECK(cudaFree(from));
    CHECK(cudaFree(to));
}
