// bug: in a build for debugging, strings of a variable, an array of constants and a buffer are printed, and the last has no terminator
// build: flags=-G
// expect: rule=global-out-of-bounds-read function=labels size=5
#include "case.h"

__device__ char title[6] = {'t', 'i', 't', 'l', 'e', 0};
__constant__ char unit[3] = {'m', 's', 0};

__global__ void labels(const char *name, float value) {
    char line[12];
    for (int i = 0; i < 11; i++) line[i] = '=';
    line[11] = 0;
    printf("%s %s\n", title, line + 5);
    printf("%s %.2f %s\n", name, value, unit);  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    std::vector<char> text{'n', 'a', 'm', 'e', 0};
    if (bad) text[4] = 's';
    char *name = upload(text);
    labels<<<1, 1>>>(name, 1.5f);
    FINISH();
    CHECK(cudaFree(name));
}
