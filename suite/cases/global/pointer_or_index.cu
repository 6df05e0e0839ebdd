// bug: a union holds pointers and indices, and one index is past the table's end
// expect: rule=global-out-of-bounds-write function=apply size=64
#include "case.h"

struct Target {
    union {
        char *place;
        long long index;
    };
    int is_place;
};

__global__ void apply(const Target *targets, char **table) {
    const Target target = targets[threadIdx.x];
    if (target.is_place)
        *target.place = 1;
    else
        table[0][target.index] = 2;  // BUG
}

int main() {
    char *table = zeroed<char>(64), *other = zeroed<char>(32);
    std::vector<Target> targets(2);
    targets[0].index = bad ? 64 : 63;
    targets[0].is_place = 0;
    targets[1].place = other + 31;
    targets[1].is_place = 1;
    apply<<<1, 2>>>(upload(targets), upload(std::vector<char *>{table}));
    FINISH();
    print_digest("table", table, 64);
    print_digest("other", other, 32);
}
