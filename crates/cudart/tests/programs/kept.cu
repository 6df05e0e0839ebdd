// What a program has said is what it is told when it asks.
#include <cstdio>
#include <cuda.h>
#include <cuda_runtime.h>

static void show(const char *what, cudaError_t e) { printf("%s: %s\n", what, cudaGetErrorString(e)); }

static void textures() {
    float *row;
    cudaMalloc(&row, 256 * sizeof(float));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = row;
    resource.res.linear.desc = cudaCreateChannelDesc<float2>();
    resource.res.linear.sizeInBytes = 256 * sizeof(float);
    cudaTextureDesc sampler = {};
    sampler.addressMode[0] = cudaAddressModeBorder;
    sampler.filterMode = cudaFilterModePoint;
    sampler.readMode = cudaReadModeElementType;
    sampler.borderColor[2] = 0.5f;
    cudaTextureObject_t texture;
    show("create", cudaCreateTextureObject(&texture, &resource, &sampler, nullptr));
    cudaResourceDesc shown = {};
    show("resource", cudaGetTextureObjectResourceDesc(&shown, texture));
    const cudaChannelFormatDesc &desc = shown.res.linear.desc;
    printf("type %d, same %d, %d %d %d %d, kind %d, %zu bytes\n", shown.resType,
           shown.res.linear.devPtr == row, desc.x, desc.y, desc.z, desc.w, desc.f,
           shown.res.linear.sizeInBytes);
    cudaTextureDesc sampled = {};
    show("sampler", cudaGetTextureObjectTextureDesc(&sampled, texture));
    printf("address %d, filter %d, read %d, normalized %d, border %g\n", sampled.addressMode[0],
           sampled.filterMode, sampled.readMode, sampled.normalizedCoords, sampled.borderColor[2]);

    cudaArray_t array;
    const cudaChannelFormatDesc bytes = cudaCreateChannelDesc<uchar4>();
    cudaMallocArray(&array, &bytes, 64, 32, cudaArraySurfaceLoadStore);
    cudaResourceDesc of_array = {};
    of_array.resType = cudaResourceTypeArray;
    of_array.res.array.array = array;
    cudaSurfaceObject_t surface;
    show("surface", cudaCreateSurfaceObject(&surface, &of_array));
    show("its resource", cudaGetSurfaceObjectResourceDesc(&shown, surface));
    printf("type %d, same %d\n", shown.resType, shown.res.array.array == array);
    cudaDestroySurfaceObject(surface);
    cudaDestroyTextureObject(texture);
    cudaFreeArray(array);
    cudaFree(row);
}

static void advice() {
    const size_t page = 1 << 16;
    char *managed;
    cudaMallocManaged(&managed, 4 * page);
    const cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
    const cudaMemLocation host = {cudaMemLocationTypeHost, 0};
    auto asked = [&](cudaMemRangeAttribute which, size_t from, size_t pages) {
        int answer = 77;
        cudaMemRangeGetAttribute(&answer, sizeof answer, which, managed + from * page, pages * page);
        return answer;
    };
    auto all = [&](const char *when) {
        int by[2] = {77, 77};
        cudaMemRangeGetAttribute(by, sizeof by, cudaMemRangeAttributeAccessedBy, managed, page);
        printf("%s: read mostly %d, preferred %d (whole: %d), accessed by %d %d, prefetched %d\n", when,
               asked(cudaMemRangeAttributeReadMostly, 0, 4),
               asked(cudaMemRangeAttributePreferredLocation, 0, 1),
               asked(cudaMemRangeAttributePreferredLocation, 0, 4), by[0], by[1],
               asked(cudaMemRangeAttributeLastPrefetchLocation, 0, 4));
    };
    all("at first");
    cudaMemAdvise(managed, 4 * page, cudaMemAdviseSetReadMostly, device);
    cudaMemAdvise(managed, page, cudaMemAdviseSetPreferredLocation, device);
    cudaMemAdvise(managed + page, 3 * page, cudaMemAdviseSetPreferredLocation, host);
    cudaMemAdvise(managed, 4 * page, cudaMemAdviseSetAccessedBy, host);
    cudaMemPrefetchAsync(managed, 4 * page, device, 0, 0);
    cudaDeviceSynchronize();
    all("advised");
    cudaMemAdvise(managed, 4 * page, cudaMemAdviseUnsetReadMostly, device);
    cudaMemAdvise(managed, 4 * page, cudaMemAdviseUnsetPreferredLocation, device);
    cudaMemAdvise(managed, 4 * page, cudaMemAdviseUnsetAccessedBy, host);
    cudaMemPrefetchAsync(managed, 4 * page, host, 0, 0);
    cudaDeviceSynchronize();
    all("taken back");

    unsigned is_managed = 0xffffffffu, type = 0;
    CUpointer_attribute kinds[] = {CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    void *answers[] = {&is_managed, &type};
    using Ask = CUresult (*)(unsigned, CUpointer_attribute *, void **, CUdeviceptr);
    void *ask = nullptr;
    cudaDriverEntryPointQueryResult found;
    show("entry point", cudaGetDriverEntryPointByVersion("cuPointerGetAttributes", &ask, 12000,
                                                         cudaEnableDefault, &found));
    reinterpret_cast<Ask>(ask)(2, kinds, answers, reinterpret_cast<CUdeviceptr>(managed));
    printf("managed %u, type %u\n", is_managed, type);
    cudaFree(managed);
}

static void streams() {
    char *buffer;
    cudaMalloc(&buffer, 4096);
    cudaStream_t stream, other;
    cudaStreamCreate(&stream);
    cudaStreamCreate(&other);
    cudaStreamAttrValue value = {};
    value.accessPolicyWindow.base_ptr = buffer;
    value.accessPolicyWindow.num_bytes = 4096;
    value.accessPolicyWindow.hitRatio = 0.75f;
    value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    show("set", cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &value));
    show("copy", cudaStreamCopyAttributes(other, stream));
    for (cudaStream_t asked : {stream, other}) {
        cudaStreamAttrValue kept = {};
        show("get", cudaStreamGetAttribute(asked, cudaStreamAttributeAccessPolicyWindow, &kept));
        printf("same %d, %zu bytes, %g, %d, %d\n", kept.accessPolicyWindow.base_ptr == buffer,
               kept.accessPolicyWindow.num_bytes, kept.accessPolicyWindow.hitRatio,
               kept.accessPolicyWindow.hitProp, kept.accessPolicyWindow.missProp);
    }
    cudaStreamDestroy(stream);
    cudaStreamDestroy(other);
    cudaFree(buffer);
}

int main() {
    textures();
    advice();
    streams();
}
