// bug: a copy to the device is longer than its destination
// expect: rule=copy-out-of-bounds-write call=cuMemcpyHtoD size=400
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int> host = counting<int>(128);
    int *data = zeroed<int>(100);
    const size_t bytes = (100 + 2 * bad) * sizeof(int);
    TRY(cudaMemcpy(data, host.data(), bytes, cudaMemcpyHostToDevice));  // BUG
    use(data, 100);
    CHECK(cudaFree(data));
}
