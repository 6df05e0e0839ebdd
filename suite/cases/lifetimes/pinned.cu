// bug: a kernel writes pinned host memory that was freed
// category: lifetimes
// expect: rule=use-after-free function=answer size=400
#include "case.h"

__global__ void answer(int *mailbox, int n) {
    int i = threadIdx.x;
    if (i < n) mailbox[i] = 2 * i;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *mailbox = nullptr;
    CHECK(cudaMallocHost(&mailbox, 400));
    answer<<<1, 128>>>(mailbox, 100);
    FINISH();
    std::printf("mailbox %016llx\n", digest_bytes(mailbox, 400));
    if (bad) CHECK(cudaFreeHost(mailbox));
    answer<<<1, 128>>>(mailbox, 100);
    FINISH();
    if (!bad) CHECK(cudaFreeHost(mailbox));
}
