// bug: a copy of rows takes one row more than the image has
// expect: rule=copy-out-of-bounds-write call=cuMemcpy2D
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int width = 48, height = 10;
    int *image = nullptr;
    size_t pitch = 0;
    CHECK(cudaMallocPitch(&image, &pitch, width * sizeof(int), height));
    CHECK(cudaMemset2D(image, pitch, 0, width * sizeof(int), height));
    std::vector<int> host = counting<int>(width * (height + 1));
    TRY(cudaMemcpy2D(image, pitch, host.data(), width * sizeof(int), width * sizeof(int),  // BUG
                     height + bad, cudaMemcpyHostToDevice));  // BUG
    use(image, width);
    CHECK(cudaFree(image));
}
