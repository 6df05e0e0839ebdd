// bug: a kernel reads a row more than a pitched buffer has
// run: protect=pages
// expect: rule=kernel-failed kernel=_Z3addPKhmiiPi error=700 at=0
#include "failed.h"

__global__ void add(const unsigned char *image, size_t pitch, int width, int height, int *out) {
    int sum = 0;
    for (int y = 0; y < height; y++)
        for (int x = threadIdx.x; x < width; x += blockDim.x) sum += image[y * pitch + x];  // BUG
    atomicAdd(out, sum);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int width = 300, height = 40;
    unsigned char *image = nullptr, *same = nullptr;
    size_t pitch = 0, again = 0;
    CHECK(cudaMallocPitch(&image, &pitch, width, height));
    CHECK(cudaMallocPitch(&same, &again, width, height));
    CHECK(cudaMemset2D(image, pitch, 3, width, height));
    int *out = zeroed<int>(1);
    add<<<1, 64>>>(image, pitch, width, height + bad, out);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaErrorIllegalAddress);  // BUG
        return 0;
    }
    FINISH();
    std::printf("aligned %d, pitch %zu %zu\n", int((size_t)image % 512 == 0), pitch, again);
    print_digest("out", out, 1);
    CHECK(cudaFree(image));
    CHECK(cudaFree(same));
    CHECK(cudaFree(out));
}
