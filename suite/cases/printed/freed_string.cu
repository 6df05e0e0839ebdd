// bug: a kernel prints a string whose buffer was freed
// expect: rule=use-after-free function=show size=8
#include "case.h"

struct Table {
    const char *names[2];
};

__global__ void show(const Table *table) {
    printf("%s, %s\n", table->names[0], table->names[1]);  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    char *first = upload(std::vector<char>{'f', 'i', 'r', 's', 't', 0, 0, 0});
    char *second = upload(std::vector<char>{'s', 'e', 'c', 'o', 'n', 'd', 0});
    Table *table = upload(std::vector<Table>{{{first, second}}});
    if (bad) CHECK(cudaFree(first));
    show<<<1, 1>>>(table);
    FINISH();
    if (!bad) CHECK(cudaFree(first));
    CHECK(cudaFree(second));
    CHECK(cudaFree(table));
}
