// A box blur of an image's rows with a planted bug: the window's last sample
// of the last pixel lies one past the end of the image. On a GPU nothing is
// seen of it, because the memory behind the image is there too.
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                     \
    do {                                                                \
        cudaError_t status = (call);                                    \
        if (status != cudaSuccess) {                                    \
            std::fprintf(stderr, "%s\n", cudaGetErrorString(status));   \
            std::exit(1);                                               \
        }                                                               \
    } while (0)

struct Image {
    float *pixels;
    int width, height;
};

__device__ float window(const float *p) { return (p[-1] + p[0] + p[1]) / 3; }

__global__ void blur(Image in, Image out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int last = in.width * in.height - 1;
    if (i > 0 && i <= last)  // should be i < last
        out.pixels[i] = window(in.pixels + i);
}

Image make_image(int width, int height) {
    Image image{nullptr, width, height};
    CHECK(cudaMalloc(&image.pixels, width * height * sizeof(float)));
    return image;
}

int main() {
    const int width = 100, height = 40;
    Image in = make_image(width, height), out = make_image(width, height);
    std::vector<float> host(width * height, 3.0f);
    CHECK(cudaMemcpy(in.pixels, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(out.pixels, 0, host.size() * sizeof(float)));
    blur<<<(width * height + 127) / 128, 128>>>(in, out);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(host.data(), out.pixels, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
    std::printf("middle pixel: %g\n", host[host.size() / 2]);
    CHECK(cudaFree(in.pixels));
    CHECK(cudaFree(out.pixels));
}
