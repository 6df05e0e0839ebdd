// bug: a precision reaches past the end of a string without a terminator
// expect: rule=global-out-of-bounds-read function=fields size=12
#include "case.h"

__global__ void fields(const char *record, int width, bool is_long) {
    printf("%.4s|%*.4s\n", record, width, record + 4);
    // (Two formats that differ in all, so that the compiler makes no one call of
    // both.)
    if (is_long) {
        printf("%.5s|%d\n", record + 8, width);  // BUG
    } else {
        printf("%d|%d|%.4s\n", width, width, record + 8);
    }
}

int main(int argc, char **argv) {
    const bool bad = is_bad(argc, argv);
    char *record = upload(std::vector<char>(12, 'x'));
    fields<<<1, 1>>>(record, 6, bad);
    FINISH();
    // All of what is left, which has a terminator now.
    CHECK(cudaMemset(record + 11, 0, 1));
    fields<<<1, 1>>>(record, -6, true);
    FINISH();
    CHECK(cudaFree(record));
}
