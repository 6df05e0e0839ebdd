// bug: a program without kernels copies back more than its buffer holds
// expect: rule=copy-out-of-bounds-read call=cuMemcpyDtoH size=400
#include "case.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = nullptr;
    CHECK(cudaMalloc(&data, 400));
    CHECK(cudaMemset(data, 0x11, 400));
    std::vector<int> host(101);
    TRY(cudaMemcpy(host.data(), data, 400 + 4 * bad, cudaMemcpyDeviceToHost));  // BUG
    if (!bad) std::printf("%x %x\n", host[99], host[100]);
    CHECK(cudaFree(data));
}
