// bug: the last record is misaligned, and past the end as well, which is what is reported
// expect: rule=global-out-of-bounds-read function=last size=64
#include "case.h"

__global__ void last(const char *bytes, int *out, int at) {
    *out = *reinterpret_cast<const int *>(bytes + at);  // BUG
}

int main(int argc, char **argv) {
    char *bytes = upload(counting<char>(64));
    int *out = zeroed<int>(1);
    last<<<1, 1>>>(bytes, out, is_bad(argc, argv) ? 62 : 60);
    FINISH();
    print_digest("out", out, 1);
}
