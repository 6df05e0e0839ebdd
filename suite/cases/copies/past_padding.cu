// bug: a copy starts behind the end of pinned memory, in what pads it
// expect: rule=copy-out-of-bounds-read call=cuMemcpyHtoD size=400
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *pinned = nullptr, *to = zeroed<int>(100);
    CHECK(cudaMallocHost(&pinned, 100 * sizeof(int)));
    for (int i = 0; i < 100; i++) pinned[i] = i;
    const int start = bad ? 100 : 99;
    TRY(cudaMemcpy(to, pinned + start, sizeof(int), cudaMemcpyHostToDevice));  // BUG
    use(to, 100);
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(to));
}
