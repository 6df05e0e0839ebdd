// bug: an assertion of a kernel fails, as the last element is larger than it may be
// expect: rule=kernel-failed kernel=_Z5twicePiii error=710
#include "case.h"
#include "failed.h"
#undef NDEBUG
#include <cassert>

__global__ void twice(int *data, int n, int most) {
    int i = threadIdx.x;
    if (i >= n) return;
    assert(data[i] <= most);  // BUG
    data[i] *= 2;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *data = upload(counting<int>(200));
    twice<<<1, 256>>>(data, 200, 199 - bad);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorAssert);  // BUG
        return 0;
    }
    FINISH();
    print_digest("data", data, 200);
    CHECK(cudaFree(data));
}
