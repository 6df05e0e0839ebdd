// bug: a kernel uses host memory that is no longer registered
// expect: rule=use-after-free function=answer size=4096
#include "case.h"

__global__ void answer(int *mailbox, int n) {
    int i = threadIdx.x;
    if (i < n) mailbox[i] = 2 * i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    void *page = nullptr;
    if (posix_memalign(&page, 4096, 4096) != 0) return 1;
    std::memset(page, 0, 4096);
    CHECK(cudaHostRegister(page, 4096, cudaHostRegisterMapped));
    int *mailbox = nullptr;
    CHECK(cudaHostGetDevicePointer(&mailbox, page, 0));
    answer<<<1, 128>>>(mailbox, 100);
    FINISH();
    std::printf("page %016llx\n", digest_bytes(page, 4096));
    if (bad) CHECK(cudaHostUnregister(page));
    answer<<<1, 128>>>(mailbox, 100);
    FINISH();
    if (!bad) CHECK(cudaHostUnregister(page));
    std::free(page);
}
