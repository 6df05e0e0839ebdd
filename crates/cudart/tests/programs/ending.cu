// Calls after main: static destructors and exit handlers; and a function that
// the CPU device does not have.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

struct Holder {
    int *p = nullptr;
    ~Holder() {
        cudaError_t e = cudaFree(p);
        printf("freed %d\n", e == cudaSuccess || e == cudaErrorCudartUnloading);
        fflush(stdout);
    }
};
static Holder holder;

__global__ void set(int *p) { *p = 1; }

int main() {
    cudaMalloc(&holder.p, 4);
    set<<<1, 1>>>(holder.p);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    cudaExternalMemoryHandleDesc desc = {};
    cudaExternalMemory_t memory;
    printf("%s\n", cudaGetErrorString(cudaImportExternalMemory(&memory, &desc)));
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    exit(3);
}
