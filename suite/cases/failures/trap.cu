// bug: a kernel traps, because a key is not in its table
// expect: rule=kernel-failed kernel=_Z4findPKiiiPi error=719
#include "failed.h"

__global__ void find(const int *keys, int n, int key, int *at) {
    for (int i = 0; i < n; i++)
        if (keys[i] == key) {
            *at = i;
            return;
        }
    __trap();  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *keys = upload(counting<int>(64));
    int *at = zeroed<int>(1);
    find<<<1, 1>>>(keys, 64, 63 + bad, at);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorLaunchFailure);  // BUG
        return 0;
    }
    FINISH();
    print_digest("at", at, 1);
    CHECK(cudaFree(keys));
    CHECK(cudaFree(at));
}
