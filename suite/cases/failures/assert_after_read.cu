// bug: an element behind the end of a buffer is read, and an assertion about it fails
// expect: rule=global-out-of-bounds-read function=twice size=800
// expect: rule=kernel-failed kernel=_Z5twicePii error=710
#include "case.h"
#include "failed.h"
#undef NDEBUG
#include <cassert>

__global__ void twice(int *data, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    int x = data[i];  // BUG
    assert(x > 0);    // BUG
    data[i] = 2 * x;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<int> start = counting<int>(200);
    for (int &x : start) x++;
    int *data = upload(start);
    twice<<<1, 256>>>(data, 200 + bad);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorAssert);  // BUG
        return 0;
    }
    FINISH();
    print_digest("data", data, 200);
    CHECK(cudaFree(data));
}
