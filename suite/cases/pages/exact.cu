// bug: a kernel reads the byte after a buffer of an odd size
// run: protect=pages pages-align=1
// expect: rule=kernel-failed kernel=_Z6lengthPKcPi error=700 at=0 size=1001 live
#include "failed.h"

__global__ void length(const char *text, int *out) {
    int n = 0;
    while (text[n]) n++;  // BUG
    *out = n;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<char> words(1001, 'x');
    if (!bad) words[1000] = 0;
    char *text = upload(words);
    int *out = zeroed<int>(1);
    length<<<1, 1>>>(text, out);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    print_digest("out", out, 1);
    CHECK(cudaFree(text));
    CHECK(cudaFree(out));
}
