// bug: a stale pointer is freed when its place may belong to a newer allocation
// expect: rule=double-free call=cuMemFree size=400
#include "frees.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *stale = filled(100);
    CHECK(cudaFree(stale));
    int *fresh = filled(100);
    if (bad) TRY(cudaFree(stale));  // BUG
    // Without protection the stale free has taken it.
    if (bad)
        TRY(cudaFree(fresh));
    else
        CHECK(cudaFree(fresh));
}
