// bug: a name is printed from the middle of a record in local memory, whose last field has no terminator
// expect: rule=local-out-of-bounds-read function=parts size=48
#include "case.h"

__global__ void parts(const char *text, int length, int *out) {
    char line[48];
    for (int i = 0; i < 48; i++) line[i] = i < length ? text[i % 8] : 0;
    printf("%s, %s, %.8s, %s\n", line, line + 8, line + 16, line + 40 + (length & 1));  // BUG
    int sum = 0;
    for (int i = 0; i < 48; i++) sum += line[(i * 7 + length) % 48];
    out[0] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    char *text = upload(std::vector<char>{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'});
    int *out = zeroed<int>(1);
    parts<<<1, 1>>>(text, bad ? 48 : 47, out);
    FINISH();
    print_digest("out", out, 1);
    CHECK(cudaFree(text));
    CHECK(cudaFree(out));
}
