// bug: a one-byte buffer is written as an int
// expect: rule=global-out-of-bounds-write function=set_flag size=1
#include "case.h"

__global__ void set_flag(char *flag, int wide) {
    if (wide)
        *reinterpret_cast<int *>(flag) = 1;  // BUG
    else
        *flag = 1;
}

int main() {
    char *flag = zeroed<char>(1);
    set_flag<<<1, 1>>>(flag, bad);
    FINISH();
    if (!bad) print_digest("flag", flag, 1);
}
