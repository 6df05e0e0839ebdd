// bug: an index that leads from one buffer into another goes past the other's end
// expect: rule=invalid-pointer function=through
#include "case.h"

struct Triple {
    int a, b, c;
};

// C++ has no such difference, and every device computes it: `from[to - from]`
// is `*to`.
template <typename T>
__global__ void through(T *from, T *to, int index, T value) {
    const ptrdiff_t distance = to - from;
    from[distance + index] = value;  // BUG
}

__global__ void narrow(int *from, int *to, int index) {
    const int distance = static_cast<int>(to - from);
    from[distance + index] = 7;
}

// The same within one buffer, as binary searches do it: the middle is no other
// buffer's.
__global__ void middle(const int *first, const int *last, int *out) {
    while (last - first > 1) {
        const int *half = first + (last - first) / 2;
        if (*half <= 40)
            first = half;
        else
            last = half;
    }
    *out = *first;
}

int main() {
    int *a = zeroed<int>(100), *b = zeroed<int>(100);
    Triple *c = zeroed<Triple>(50), *d = zeroed<Triple>(50);
    int *sorted = upload(counting<int>(100));
    int *found = zeroed<int>(1);
    // Far enough to be in no buffer.
    through<<<1, 1>>>(a, b, bad ? 1 << 28 : 99, 5);
    through<<<1, 1>>>(b, a, 0, 6);
    through<<<1, 1>>>(c, d, 49, Triple{1, 2, 3});
    narrow<<<1, 1>>>(a, b, 50);
    middle<<<1, 1>>>(sorted, sorted + 100, found);
    FINISH();
    print_digest("a", a, 100);
    print_digest("b", b, 100);
    print_digest("d", reinterpret_cast<int *>(d), 150);
    print_digest("found", found, 1);
}
