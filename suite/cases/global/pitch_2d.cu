// bug: a pitched image is written one row below its last
// expect: rule=global-out-of-bounds-write function=gradient
#include "case.h"

__global__ void gradient(char *image, size_t pitch, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        float *row = reinterpret_cast<float *>(image + y * pitch);
        row[x] = x + 100.0f * y;  // BUG
    }
}

int main() {
    const int width = 50, height = 21;
    char *image = nullptr;
    size_t pitch = 0;
    CHECK(cudaMallocPitch(&image, &pitch, width * sizeof(float), height));
    dim3 block(16, 8);
    dim3 grid((width + 15) / 16, (height + 8) / 8);
    gradient<<<grid, block>>>(image, pitch, width, height + bad);
    FINISH();
    std::vector<float> host(width * height);
    CHECK(cudaMemcpy2D(host.data(), width * sizeof(float), image, pitch, width * sizeof(float),
                       height, cudaMemcpyDeviceToHost));
    std::printf("image %016llx\n", digest_bytes(host.data(), host.size() * sizeof(float)));
}
