// bug: a precision that is an argument reaches past the end of a string without a terminator
// expect: rule=global-out-of-bounds-read function=fields size=12
#include "case.h"

__global__ void fields(const char *record, int width, int last) {
    printf("%.4s|%.*s|%*.*s\n", record, width, record + 4, width + 2, last, record + 8);  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    char *record = upload(std::vector<char>(12, 'x'));
    fields<<<1, 1>>>(record, 4, bad ? 5 : 4);
    FINISH();
    // All of what is left, which has a terminator now.
    CHECK(cudaMemset(record + 11, 0, 1));
    fields<<<1, 1>>>(record, 8, -1);
    FINISH();
    CHECK(cudaFree(record));
}
