// bug: a loop over one buffer reaches another by their distance, one element too far
// expect: rule=global-out-of-bounds-write function=shifted size=256
#include "case.h"
#include <cstdint>

// As compilers write it to keep one pointer instead of two.
__global__ void shifted(const int *in, int *out, int n) {
    const intptr_t distance =
        reinterpret_cast<intptr_t>(out) - reinterpret_cast<intptr_t>(in);
    for (const int *at = in; at != in + n; ++at) {
        *reinterpret_cast<int *>(reinterpret_cast<intptr_t>(at) + distance) = *at + 1;  // BUG
    }
}

int main() {
    int *in = upload(counting<int>(128)), *out = zeroed<int>(64);
    shifted<<<1, 1>>>(in, out, bad ? 65 : 64);
    FINISH();
    print_digest("out", out, 64);
}
