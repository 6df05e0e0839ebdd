// Pitched and 3-D memory: allocate, fill, copy in every direction.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

__global__ void twice(char *p, size_t pitch, int width, int height) {
    int x = threadIdx.x, y = blockIdx.x;
    if (x < width && y < height) p[y * pitch + x] *= 2;
}

static void show(const char *what, cudaError_t e) { printf("%s: %s\n", what, cudaGetErrorString(e)); }

int main() {
    char in[5 * 20], out[5 * 20];
    for (int i = 0; i < 100; i++) in[i] = i % 50;
    char *d;
    size_t pitch;
    show("pitch", cudaMallocPitch(&d, &pitch, 20, 5));
    printf("padded %d\n", pitch >= 20 && pitch % 32 == 0);
    show("2d to device", cudaMemcpy2D(d, pitch, in, 20, 20, 5, cudaMemcpyHostToDevice));
    twice<<<5, 32>>>(d, pitch, 20, 5);
    show("2d to host", cudaMemcpy2D(out, 20, d, pitch, 20, 5, cudaMemcpyDeviceToHost));
    int bad = 0;
    for (int i = 0; i < 100; i++) bad += out[i] != 2 * in[i];
    printf("wrong %d\n", bad);
    show("memset 2d", cudaMemset2D(d, pitch, 7, 10, 4));
    cudaMemcpy2D(out, 20, d, pitch, 20, 5, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", out[0], out[9 + 3 * 20], out[10] == 2 * in[10] && out[80] == 2 * in[80]);
    show("wide", cudaMemcpy2D(out, 10, d, pitch, 20, 5, cudaMemcpyDeviceToHost));

    cudaExtent extent = make_cudaExtent(16, 3, 4);
    cudaPitchedPtr box;
    show("3d", cudaMalloc3D(&box, extent));
    show("memset 3d", cudaMemset3D(box, 1, extent));
    char small[2 * 2 * 2] = {10, 11, 12, 13, 14, 15, 16, 17}, all[16 * 3 * 4];
    cudaMemcpy3DParms parms = {};
    parms.srcPtr = make_cudaPitchedPtr(small, 2, 2, 2);
    parms.dstPtr = box;
    parms.dstPos = make_cudaPos(3, 1, 2);
    parms.extent = make_cudaExtent(2, 2, 2);
    parms.kind = cudaMemcpyHostToDevice;
    show("3d to device", cudaMemcpy3D(&parms));
    cudaMemcpy3DParms back = {};
    back.srcPtr = box;
    back.dstPtr = make_cudaPitchedPtr(all, 16, 16, 3);
    back.extent = extent;
    back.kind = cudaMemcpyDeviceToHost;
    cudaStream_t s;
    cudaStreamCreate(&s);
    show("3d to host", cudaMemcpy3DAsync(&back, s));
    cudaStreamSynchronize(s);
    int sum = 0;
    for (char c : all) sum += c;
    printf("sum %d corners %d %d\n", sum, all[(2 * 3 + 1) * 16 + 3], all[(3 * 3 + 2) * 16 + 4]);
    show("2d async", cudaMemcpy2DAsync(d, pitch, in, 20, 20, 5, cudaMemcpyHostToDevice, s));
    show("default", cudaMemcpy2D(out, 20, d, pitch, 20, 5, cudaMemcpyDefault));
    printf("same %d\n", memcmp(in, out, 100) == 0);
    cudaFree(d);
    show("free", cudaFree(box.ptr));
    return 0;
}
