// bug: a virtual function is called of an object whose memory was freed, and the call ends the kernel
// expect: rule=use-after-free function=areas
// expect: rule=kernel-failed kernel=_Z5areasPP5ShapePii
#include "case.h"
#include "failed.h"

struct Shape {
    int side;
    __device__ explicit Shape(int s) : side(s) {}
    __device__ virtual int area() const { return side * side; }
};

struct Room : Shape {
    __device__ explicit Room(int s) : Shape(s) {}
    __device__ int area() const override { return 2 * side; }
};

__global__ void make(void *place, Shape **shapes) {
    char *at = (char *)place + 32 * threadIdx.x;
    shapes[threadIdx.x] = threadIdx.x & 1 ? new (at) Room(threadIdx.x) : new (at) Shape(threadIdx.x);
}

__global__ void areas(Shape **shapes, int *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = shapes[i]->area();  // BUG
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    char *place = zeroed<char>(32 * 32);
    Shape **shapes = zeroed<Shape *>(32);
    int *out = zeroed<int>(32);
    make<<<1, 32>>>(place, shapes);
    CHECK(cudaDeviceSynchronize());
    if (bad) CHECK(cudaFree(place));
    areas<<<1, 32>>>(shapes, out, 32);  // BUG
    if (bad) {
        EXPECT_FAILURE(cudaSuccess);  // BUG
        return 0;
    }
    FINISH();
    print_digest("out", out, 32);
    CHECK(cudaFree(place));
    CHECK(cudaFree(shapes));
    CHECK(cudaFree(out));
}
