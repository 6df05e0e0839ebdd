// bug: a string is copied into a local buffer that has no room for its end
// expect: rule=local-out-of-bounds-write function=shout size=16
#include "case.h"

__global__ void shout(const char *text, char *out) {
    char buffer[16];
    int i = 0;
    do {
        char c = text[i];
        buffer[i] = c >= 'a' && c <= 'z' ? c - 32 : c;  // BUG
    } while (text[i++]);
    for (int k = 0; k < 15; k++) out[k] = buffer[14 - k];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const char *text = bad ? "sixteen letters!" : "fifteen letters";
    char *in = upload(std::vector<char>(text, text + strlen(text) + 1));
    char *out = zeroed<char>(16);
    shout<<<1, 1>>>(in, out);
    FINISH();
    print_digest("out", out, 15);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
}
