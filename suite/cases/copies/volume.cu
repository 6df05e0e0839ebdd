// bug: a copy of a box in a volume is one plane too deep
// expect: rule=copy-out-of-bounds-read call=cuMemcpy3D
#include "copies.h"

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const size_t width = 16 * sizeof(int), height = 8, depth = 6;
    cudaPitchedPtr volume;
    CHECK(cudaMalloc3D(&volume, make_cudaExtent(width, height, depth)));
    CHECK(cudaMemset3D(volume, 1, make_cudaExtent(width, height, depth)));
    int *box = zeroed<int>(16 * 8 * 6);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = volume;
    copy.srcPos = make_cudaPos(0, 0, 2);
    copy.dstPtr = make_cudaPitchedPtr(box, width, width, height);
    copy.extent = make_cudaExtent(width, height, 4 + bad);
    copy.kind = cudaMemcpyDeviceToDevice;
    TRY(cudaMemcpy3D(&copy));  // BUG
    use(box, 16 * 8 * 4);
    CHECK(cudaFree(volume.ptr));
    CHECK(cudaFree(box));
}
