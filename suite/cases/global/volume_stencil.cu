// bug: a cudaMalloc3D volume is read one slice behind its last
// expect: rule=global-out-of-bounds-read function=next_slice
#include "case.h"

__global__ void next_slice(cudaPitchedPtr volume, int rows, int slices, int *out) {
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
    size_t slice = volume.pitch * rows;
    if (z < slices) {
        const char *row = static_cast<char *>(volume.ptr) + (z + 1) * slice + y * volume.pitch;
        int value = reinterpret_cast<const int *>(row)[x];  // BUG
        atomicAdd(out, value);
    }
}

int main() {
    const int width = 16, rows = 8, slices = 5;
    cudaPitchedPtr volume;
    CHECK(cudaMalloc3D(&volume, make_cudaExtent(width * sizeof(int), rows, slices)));
    CHECK(cudaMemset(volume.ptr, 1, volume.pitch * rows * slices));
    int *out = zeroed<int>(1);
    next_slice<<<slices, dim3(width, rows)>>>(volume, rows, slices - 1 + bad, out);
    FINISH();
    if (!bad) print_digest("out", out, 1);
}
