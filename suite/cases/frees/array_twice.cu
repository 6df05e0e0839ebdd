// bug: a CUDA array is freed twice
// expect: rule=double-free call=cuArrayDestroy size=512
#include "case.h"

__global__ void row(cudaTextureObject_t texture, float *out) {
    out[threadIdx.x] = tex2D<float>(texture, threadIdx.x, 1);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const cudaChannelFormatDesc channel = cudaCreateChannelDesc<float>();
    const std::vector<float> texels = counting<float>(32 * 4);
    float *out = zeroed<float>(32);
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &channel, 32, 4));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, texels.data(), 32 * sizeof(float), 32 * sizeof(float), 4,
                              cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc sampler = {};
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &sampler, nullptr));
    row<<<1, 32>>>(texture, out);
    FINISH();
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFreeArray(array));
    if (bad) TRY(cudaFreeArray(array));  // BUG
    // A handle may be given out again.
    for (int i = 0; i < 4; i++) {
        CHECK(cudaMallocArray(&array, &channel, 32, 4));
        CHECK(cudaFreeArray(array));
    }
    print_digest("out", out, 32);
    CHECK(cudaFree(out));
}
