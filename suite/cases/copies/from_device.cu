// bug: a copy from the device starts in the middle and has the length of the whole
// expect: rule=copy-out-of-bounds-read call=cuMemcpyDtoH size=400
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int> host(100);
    int *data = upload(counting<int>(100));
    const int start = 40, count = bad ? 100 : 60;
    TRY(cudaMemcpy(host.data(), data + start, count * sizeof(int), cudaMemcpyDeviceToHost));  // BUG
    use(data, 100);
    CHECK(cudaFree(data));
}
