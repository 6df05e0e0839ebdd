// bug: a precision reaches past the end of a string without a terminator
// expect: rule=global-out-of-bounds-read function=fields size=12
#include "case.h"

__global__ void fields(const char *record, int width, bool is_long) {
    printf("%.4s|%*.4s\n", record, width, record + 4);
    printf(is_long ? "%.5s|%d\n" : "%.4s|%d\n", record + 8, width);  // BUG
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
