// bug: one temporary allocation is cut into aligned slices, and a slice is read past its end
// annotated
// expect: rule=intra-allocation-out-of-bounds-read function=scan size=400
#include "annotate.h"

__global__ void scan(const int *counts, int *offsets, int n) {
    int sum = 0;
    for (int i = 0; i < threadIdx.x && i < n; i++) sum += counts[i];  // BUG
    offsets[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const bool annotated = is_annotated(argc, argv);
    // As a library that first asks how much it needs, then cuts what it gets.
    const size_t sizes[2] = {400, 4 * 128};
    char *storage = zeroed<char>(512 + 512);
    char *slices[2] = {storage, storage + 512};
    if (annotated)
        for (int k = 0; k < 2; k++) ringfence_region_create(slices[k], sizes[k], k ? "offsets" : "counts");
    CHECK(cudaMemset(slices[0], 0, sizes[0]));
    scan<<<1, 128>>>(reinterpret_cast<int *>(slices[0]), reinterpret_cast<int *>(slices[1]), bad ? 110 : 100);
    FINISH();
    if (!bad) print_digest("offsets", reinterpret_cast<int *>(slices[1]), 128);
    if (annotated)
        for (char *slice : slices) ringfence_region_destroy(slice);
    CHECK(cudaFree(storage));
}
