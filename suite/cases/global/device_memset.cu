// bug: memset and memcpy in device code go past their buffer's end
// expect: rule=global-out-of-bounds-write function=clear size=1000
#include "case.h"

__global__ void clear(char *bytes, const char *from, int count) {
    const int part = count / 4;
    char *own = bytes + threadIdx.x * part;
    // Of a size that only the device knows: a loop of single bytes.
    memset(own, threadIdx.x + 1, part);  // BUG
    // Of a fixed size.
    memset(own, 0x55, 16);  // BUG
    memcpy(own + 16, from + threadIdx.x * 16, 16);
}

int main() {
    char *bytes = zeroed<char>(1000), *from = upload(counting<char>(64));
    clear<<<1, 4>>>(bytes, from, bad ? 1004 : 1000);
    FINISH();
    if (!bad) print_digest("bytes", bytes, 1000);
}
