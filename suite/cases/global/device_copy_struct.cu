// bug: a whole struct is copied past the last element of an array of structs
// expect: rule=global-out-of-bounds-write function=broadcast size=600
#include "case.h"

struct Cell {
    double mass;
    int id;
    short kind;
    char tag[10];
};
static_assert(sizeof(Cell) == 24, "the sizes below count on it");

__global__ void broadcast(Cell *cells, Cell value, int n) {
    int i = threadIdx.x;
    if (i < n)
        cells[i] = value;  // BUG
}

int main() {
    const int n = 25;
    Cell *cells = zeroed<Cell>(n);
    Cell value = {2.5, 7, 3, {'a', 'b', 'c', 'd', 'e', 'f'}};
    broadcast<<<1, 32>>>(cells, value, n + bad);
    FINISH();
    print_digest("cells", cells, n);
}
