// bug: results are copied from a buffer that was freed
// expect: rule=use-after-free call=cuMemcpyDtoH size=400
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = upload(counting<int>(100));
    std::vector<int> host(100);
    use(data, 100);
    if (bad) CHECK(cudaFree(data));
    TRY(cudaMemcpy(host.data(), data, 400, cudaMemcpyDeviceToHost));  // BUG
    if (!bad) CHECK(cudaFree(data));
}
