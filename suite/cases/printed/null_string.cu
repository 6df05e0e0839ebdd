// bug: a kernel prints a name that is missing: a null pointer, which the device's printf does not accept
// expect: rule=invalid-pointer function=list
#include "case.h"

__global__ void list(const char *const *names, int count) {
    for (int i = 0; i < count; i++) printf("%d: %s\n", i, names[i]);  // BUG
    if (names[count]) printf("%s\n", names[count]);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    char *first = upload(std::vector<char>{'o', 'n', 'e', 0});
    char *second = upload(std::vector<char>{'t', 'w', 'o', 0});
    const char **names = upload(std::vector<const char *>{first, second, nullptr, nullptr});
    list<<<1, 1>>>(names, bad ? 3 : 2);
    FINISH();
    CHECK(cudaFree(first));
    CHECK(cudaFree(second));
    CHECK(cudaFree(names));
}
