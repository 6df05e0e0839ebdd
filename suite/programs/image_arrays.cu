// about: textures and surfaces over arrays of every shape: filtered, wrapped, layered, cubes, mipmaps
// build: arch=80
// feature: arrays, textures, surfaces
//
// Every fetch is at a place where the weights of linear filtering are multiples
// of 1/4 and texels are small integers, so that the answers are the same on
// every device and the host computes them exactly.
#include "case.h"
#include <cmath>

static int wrong = 0;

static void expect(const char *what, const std::vector<float> &got, const std::vector<float> &wanted) {
    for (size_t i = 0; i < wanted.size(); i++)
        if (got[i] != wanted[i]) {
            std::fprintf(stderr, "%s: %zu is %g, not %g\n", what, i, got[i], wanted[i]);
            wrong++;
        }
    std::printf("%s: %zu values\n", what, wanted.size());
}

static cudaTextureDesc sampler(cudaTextureFilterMode filter, cudaTextureAddressMode mode, bool normalized) {
    cudaTextureDesc description{};
    for (auto &axis : description.addressMode) axis = mode;
    description.filterMode = filter;
    description.readMode = cudaReadModeElementType;
    description.normalizedCoords = normalized;
    return description;
}

static cudaTextureObject_t texture_of(cudaArray_t array, const cudaTextureDesc &description) {
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureObject_t texture = 0;
    CHECK(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
    return texture;
}

static cudaSurfaceObject_t surface_of(cudaArray_t array) {
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t surface = 0;
    CHECK(cudaCreateSurfaceObject(&surface, &resource));
    return surface;
}

static cudaArray_t array_of(cudaExtent extent, unsigned flags, const std::vector<float> &texels) {
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array = nullptr;
    CHECK(cudaMalloc3DArray(&array, &format, extent, flags));
    cudaMemcpy3DParms copy{};
    const size_t rows = extent.height ? extent.height : 1, slices = extent.depth ? extent.depth : 1;
    copy.srcPtr = make_cudaPitchedPtr(const_cast<float *>(texels.data()), extent.width * sizeof(float), extent.width, rows);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(extent.width, rows, slices);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    return array;
}

enum Shape { Line, Plane, Volume, LayeredLine, LayeredPlane, Cube, Gather, Level };

__global__ void fetch(cudaTextureObject_t texture, Shape shape, const float4 *places, float *out, int n) {
    const int i = threadIdx.x;
    if (i >= n) return;
    const float4 p = places[i];
    switch (shape) {
    case Line: out[i] = tex1D<float>(texture, p.x); break;
    case Plane: out[i] = tex2D<float>(texture, p.x, p.y); break;
    case Volume: out[i] = tex3D<float>(texture, p.x, p.y, p.z); break;
    case LayeredLine: out[i] = tex1DLayered<float>(texture, p.x, int(p.w)); break;
    case LayeredPlane: out[i] = tex2DLayered<float>(texture, p.x, p.y, int(p.w)); break;
    case Cube: out[i] = texCubemap<float>(texture, p.x, p.y, p.z); break;
    case Gather: {
        const float4 four = tex2Dgather<float4>(texture, p.x, p.y, 0);
        out[i] = four.x + 10 * four.y + 100 * four.z + 1000 * four.w;
        break;
    }
    case Level: out[i] = tex2DLod<float>(texture, p.x, p.y, p.w); break;
    }
}

static std::vector<float> fetched(cudaTextureObject_t texture, Shape shape, const std::vector<float4> &places) {
    float4 *at = upload(places);
    const int n = static_cast<int>(places.size());
    float *out = zeroed<float>(n);
    fetch<<<1, 64>>>(texture, shape, at, out, n);
    FINISH();
    std::vector<float> got(n);
    CHECK(cudaMemcpy(got.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(at));
    CHECK(cudaFree(out));
    CHECK(cudaDestroyTextureObject(texture));
    return got;
}

static std::vector<float> counted(int n) {
    std::vector<float> values(n);
    for (int i = 0; i < n; i++) values[i] = float(i);
    return values;
}

static void lines_and_planes() {
    cudaArray_t line = array_of(make_cudaExtent(8, 0, 0), 0, counted(8));
    expect("line, point", fetched(texture_of(line, sampler(cudaFilterModePoint, cudaAddressModeClamp, false)), Line,
                                  {{0.5f, 0, 0, 0}, {7.9f, 0, 0, 0}, {-3, 0, 0, 0}, {99, 0, 0, 0}}),
           {0, 7, 0, 7});
    // (A GPU applies the mode of the second axis to lines, too: with a border
    // there, an H200 takes half of each value from it.)
    cudaTextureDesc along = sampler(cudaFilterModeLinear, cudaAddressModeBorder, false);
    along.addressMode[1] = along.addressMode[2] = cudaAddressModeClamp;
    expect("line, linear", fetched(texture_of(line, along), Line,
                                   {{1, 0, 0, 0}, {2.75f, 0, 0, 0}, {0, 0, 0, 0}, {8, 0, 0, 0}}),
           {0.5f, 2.25f, 0, 3.5f});
    CHECK(cudaFreeArray(line));
    // 4 x 4 texels, 4 y + x.
    cudaArray_t plane = array_of(make_cudaExtent(4, 4, 0), cudaArrayTextureGather, counted(16));
    const std::vector<float4> outside = {{1.125f, 0.125f, 0, 0}, {-0.125f, 0.125f, 0, 0}, {0.375f, 1.375f, 0, 0}};
    expect("plane, wrapped",
           fetched(texture_of(plane, sampler(cudaFilterModePoint, cudaAddressModeWrap, true)), Plane, outside), {0, 3, 5});
    expect("plane, mirrored",
           fetched(texture_of(plane, sampler(cudaFilterModePoint, cudaAddressModeMirror, true)), Plane, outside), {3, 0, 9});
    expect("plane, linear", fetched(texture_of(plane, sampler(cudaFilterModeLinear, cudaAddressModeClamp, false)), Plane,
                                    {{1, 1, 0, 0}, {1.75f, 2.5f, 0, 0}, {4, 4, 0, 0}, {0, 2, 0, 0}}),
           {2.5f, 9.25f, 15, 6});
    // Texels (1,2), (2,2), (2,1) and (1,1).
    expect("plane, gathered", fetched(texture_of(plane, sampler(cudaFilterModePoint, cudaAddressModeClamp, false)), Gather,
                                      {{2, 2, 0, 0}}),
           {9 + 10 * 10 + 100 * 6 + 1000 * 5});
    CHECK(cudaFreeArray(plane));
}

static void volumes_and_layers() {
    // 4 x 4 x 2 texels, 16 z + 4 y + x.
    cudaArray_t volume = array_of(make_cudaExtent(4, 4, 2), 0, counted(32));
    expect("volume, linear", fetched(texture_of(volume, sampler(cudaFilterModeLinear, cudaAddressModeClamp, false)), Volume,
                                     {{1, 1, 1, 0}, {0.5f, 0.5f, 1.25f, 0}, {9, 9, 9, 0}}),
           {10.5f, 12, 31});
    CHECK(cudaFreeArray(volume));
    cudaArray_t lines = array_of(make_cudaExtent(4, 0, 3), cudaArrayLayered, counted(12));
    expect("layers of lines", fetched(texture_of(lines, sampler(cudaFilterModeLinear, cudaAddressModeClamp, false)),
                                      LayeredLine, {{1, 0, 0, 0}, {1, 0, 0, 2}, {1, 0, 0, 7}}),
           {0.5f, 8.5f, 8.5f});
    CHECK(cudaFreeArray(lines));
    cudaArray_t planes = array_of(make_cudaExtent(4, 4, 2), cudaArrayLayered, counted(32));
    expect("layers of planes", fetched(texture_of(planes, sampler(cudaFilterModeLinear, cudaAddressModeClamp, true)),
                                       LayeredPlane, {{0.25f, 0.25f, 0, 0}, {0.25f, 0.25f, 0, 1}}),
           {2.5f, 18.5f});
    CHECK(cudaFreeArray(planes));
}

static void cubes() {
    // Each face holds its number, in 2 x 2 texels, times ten, plus the texel's.
    std::vector<float> texels(24);
    for (int i = 0; i < 24; i++) texels[i] = float(10 * (i / 4) + i % 4);
    cudaArray_t cube = array_of(make_cudaExtent(2, 2, 6), cudaArrayCubemap, texels);
    expect("cube", fetched(texture_of(cube, sampler(cudaFilterModePoint, cudaAddressModeClamp, true)), Cube,
                           {{1, 0.5f, 0.5f, 0}, {-1, 0.5f, 0.5f, 0}, {0.5f, 1, 0.5f, 0}, {0.5f, -1, 0.5f, 0},
                            {0.5f, 0.5f, 1, 0}, {0.5f, 0.5f, -1, 0}, {2, -1, -1, 0}}),
           {0, 11, 23, 31, 41, 50, 3});
    CHECK(cudaFreeArray(cube));
}

__global__ void draw(cudaSurfaceObject_t surface, int width, int height) {
    const int x = threadIdx.x, y = threadIdx.y;
    if (x < width && y < height) surf2Dwrite(float(100 * y + x), surface, x * 4, y);
}

// Reads beside the surface, too, where zeros are.
__global__ void shift(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width, int height) {
    const int x = threadIdx.x, y = threadIdx.y;
    if (x >= width || y >= height) return;
    const float left = surf2Dread<float>(from, (x - 1) * 4, y, cudaBoundaryModeZero);
    const float below = surf2Dread<float>(from, x * 4, y + 1, cudaBoundaryModeClamp);
    surf2Dwrite(left + below, to, x * 4, y);
    surf2Dwrite(-1.0f, to, (x + width) * 4, y, cudaBoundaryModeZero);
}

static void surfaces() {
    const int width = 7, height = 5;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t first = nullptr, second = nullptr;
    CHECK(cudaMallocArray(&first, &format, width, height, cudaArraySurfaceLoadStore));
    CHECK(cudaMallocArray(&second, &format, width, height, cudaArraySurfaceLoadStore));
    cudaSurfaceObject_t from = surface_of(first), to = surface_of(second);
    draw<<<1, dim3(8, 8)>>>(from, width, height);
    shift<<<1, dim3(8, 8)>>>(from, to, width, height);
    FINISH();
    std::vector<float> got(width * height), wanted;
    CHECK(cudaMemcpy2DFromArray(got.data(), width * 4, second, 0, 0, width * 4, height, cudaMemcpyDeviceToHost));
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const int below = y + 1 < height ? y + 1 : y;
            wanted.push_back(float((x ? 100 * y + x - 1 : 0) + 100 * below + x));
        }
    expect("surfaces", got, wanted);
    // From array to array, to the device, and back.
    CHECK(cudaMemcpy2DArrayToArray(first, 8, 1, second, 0, 0, 12, 2, cudaMemcpyDeviceToDevice));
    float *linear = zeroed<float>(3);
    CHECK(cudaMemcpy2DFromArray(linear, 12, first, 8, 2, 12, 1, cudaMemcpyDeviceToDevice));
    std::vector<float> row(3);
    CHECK(cudaMemcpy(row.data(), linear, 12, cudaMemcpyDeviceToHost));
    expect("copied rows", row, {wanted[7], wanted[8], wanted[9]});
    cudaExtent extent{};
    cudaChannelFormatDesc found{};
    unsigned flags = 0;
    CHECK(cudaArrayGetInfo(&found, &extent, &flags, first));
    std::printf("%zu x %zu of %d bits, flags %u\n", extent.width, extent.height, found.x, flags);
    CHECK(cudaFree(linear));
    CHECK(cudaDestroySurfaceObject(from));
    CHECK(cudaDestroySurfaceObject(to));
    CHECK(cudaFreeArray(first));
    CHECK(cudaFreeArray(second));
}

static void mipmaps() {
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t mipmap = nullptr;
    CHECK(cudaMallocMipmappedArray(&mipmap, &format, make_cudaExtent(8, 8, 0), 3));
    for (unsigned level = 0; level < 3; level++) {
        cudaArray_t array = nullptr;
        CHECK(cudaGetMipmappedArrayLevel(&array, mipmap, level));
        const int side = 8 >> level;
        const std::vector<float> texels(side * side, float(8 * level));
        CHECK(cudaMemcpy2DToArray(array, 0, 0, texels.data(), side * 4, side * 4, side, cudaMemcpyHostToDevice));
    }
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeMipmappedArray;
    resource.res.mipmap.mipmap = mipmap;
    cudaTextureDesc description = sampler(cudaFilterModeLinear, cudaAddressModeClamp, true);
    description.mipmapFilterMode = cudaFilterModeLinear;
    description.maxMipmapLevelClamp = 2;
    cudaTextureObject_t texture = 0;
    CHECK(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
    expect("levels", fetched(texture, Level, {{0.5f, 0.5f, 0, 0}, {0.5f, 0.5f, 0, 0.5f}, {0.5f, 0.5f, 0, 1.25f}, {0.5f, 0.5f, 0, 9}}),
           {0, 4, 10, 16});
    CHECK(cudaFreeMipmappedArray(mipmap));
}

// Bytes as fractions, and four channels of them.
__global__ void colors(cudaTextureObject_t texture, float *out) {
    const float4 color = tex2D<float4>(texture, 1.5f, 0.5f);
    out[0] = color.x, out[1] = color.y, out[2] = color.z, out[3] = color.w;
}

static void fractions() {
    cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
    cudaArray_t array = nullptr;
    CHECK(cudaMallocArray(&array, &format, 2, 1));
    const unsigned char texels[8] = {1, 2, 3, 4, 0, 51, 102, 255};
    CHECK(cudaMemcpy2DToArray(array, 0, 0, texels, 8, 8, 1, cudaMemcpyHostToDevice));
    cudaTextureDesc description = sampler(cudaFilterModePoint, cudaAddressModeClamp, false);
    description.readMode = cudaReadModeNormalizedFloat;
    cudaTextureObject_t texture = texture_of(array, description);
    float *out = zeroed<float>(4);
    colors<<<1, 1>>>(texture, out);
    FINISH();
    std::vector<float> got(4);
    CHECK(cudaMemcpy(got.data(), out, 16, cudaMemcpyDeviceToHost));
    for (float &value : got) value = std::round(value * 1000);
    expect("fractions", got, {0, 200, 400, 1000});
    CHECK(cudaFree(out));
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFreeArray(array));
}

int main() {
    lines_and_planes();
    volumes_and_layers();
    cubes();
    surfaces();
    mipmaps();
    fractions();
    std::printf("%s\n", wrong ? "FAILED" : "all as on the host");
    return wrong;
}
