// bug: of several strings among arguments of four and eight bytes, the third has no terminator
// expect: rule=global-out-of-bounds-read function=report size=6
#include "case.h"

__global__ void report(const char *first, const char *second, const char *third, int number,
                       double real, long long large) {
    if (number == 7)
        printf("%d %s %c%f %5s %hd %s %lld %s%%\n", number, first, 'c', real, second,  // BUG
               static_cast<short>(number), third, large, first);
    printf(number > 6 ? "many %s\n" : "few %s\n", number & 1 ? "odd" : "even");
    printf("%s %d\n", __func__, number);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    char *first = upload(std::vector<char>{'o', 'n', 'e', 0});
    char *second = upload(std::vector<char>{0});
    std::vector<char> text{'t', 'h', 'r', 'e', 'e', 0};
    if (bad) text[5] = '3';
    char *third = upload(text);
    report<<<1, 1>>>(first, second, third, 7, 0.5, 1LL << 40);
    FINISH();
    report<<<1, 1>>>(first, second, third, 4, 0.5, 1LL << 40);
    FINISH();
    CHECK(cudaFree(first));
    CHECK(cudaFree(second));
    CHECK(cudaFree(third));
}
