// bug: a kernel prints a name that fills its buffer, so that there is no terminator
// expect: rule=global-out-of-bounds-read function=show size=8
#include "case.h"

__global__ void show(const char *name) {
    printf("[%s]\n", name);  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<char> text(8, 'a');
    if (!bad) text[7] = 0;
    char *name = upload(text);
    show<<<1, 2>>>(name);
    FINISH();
    CHECK(cudaFree(name));
}
