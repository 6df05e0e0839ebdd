// bug: a kernel writes a row more than a pitched buffer has
// run: protect=shadow
// expect: rule=global-out-of-bounds-write function=paint
#include "case.h"

__global__ void paint(unsigned char *image, size_t pitch, int width, int height) {
    for (int y = blockIdx.x; y < height; y += gridDim.x)
        for (int x = threadIdx.x; x < width; x += blockDim.x) image[y * pitch + x] = x + y;  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int width = 300, height = 40;
    unsigned char *image = nullptr;
    size_t pitch = 0;
    CHECK(cudaMallocPitch(&image, &pitch, width, height));
    CHECK(cudaMemset2D(image, pitch, 0, width, height));
    paint<<<8, 64>>>(image, pitch, width, height + bad);
    FINISH();
    std::vector<unsigned char> host(width * height);
    CHECK(cudaMemcpy2D(host.data(), width, image, pitch, width, height, cudaMemcpyDeviceToHost));
    long long sum = 0;
    for (unsigned char byte : host) sum += byte;
    std::printf("sum %lld\n", sum);
    CHECK(cudaFree(image));
}
