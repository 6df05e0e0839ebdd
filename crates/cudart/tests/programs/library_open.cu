// Opens a library that has a static runtime of its own (library_part.cu), before and
// after the first call of its own.
#include <cstdio>
#include <cuda_runtime.h>
#include <dlfcn.h>

static __global__ void work(int *p) { *p = 3; }

int main(int argc, char **argv) {
    void *first = dlopen(argv[1], RTLD_NOW);
    int n = 0, *p;
    cudaMalloc(&p, sizeof n);
    work<<<1, 1>>>(p);
    void *second = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    for (void *library : {first, second}) {
        if (!library) {
            std::printf("%s\n", dlerror());
            return 1;
        }
        reinterpret_cast<void (*)(int *)>(dlsym(library, "_Z10in_libraryPi"))(p);
    }
    cudaMemcpy(&n, p, sizeof n, cudaMemcpyDeviceToHost);
    std::printf("main: %d\n", n);
    dlclose(second);
    cudaError_t e = cudaFree(p);
    std::printf("main: %s\n", cudaGetErrorString(e));
    return 0;
}
