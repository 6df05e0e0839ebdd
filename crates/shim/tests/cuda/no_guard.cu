// PROGRAM good|bad ADDRESS BYTES: a program that has taken the memory where the
// guard and the host would talk to each other, before it calls CUDA. Its
// kernels use the device's malloc and free again and again, so that what is
// freed has to be given back, and in its bad form write past a block and past
// a buffer.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#define CHECK(call)                                                              \
    do {                                                                         \
        cudaError_t code_ = (call);                                              \
        if (code_ != cudaSuccess) {                                              \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(code_)); \
            std::exit(1);                                                        \
        }                                                                        \
    } while (0)

__global__ void keep(char **kept, size_t bytes, int past) {
    char *text = static_cast<char *>(malloc(bytes));
    kept[threadIdx.x] = text;
    if (text && threadIdx.x == 7) text[bytes - 1 + past] = 1;
}

__global__ void drop(char **kept, int *missing) {
    if (!kept[threadIdx.x]) atomicAdd(missing, 1);
    free(kept[threadIdx.x]);
}

__global__ void overrun(int *out, int count) { out[count - 1] = count; }

int main(int count, char **arguments) {
    if (count != 4) return 2;
    const int bad = !std::strcmp(arguments[1], "bad");
    void *place = reinterpret_cast<void *>(std::strtoull(arguments[2], nullptr, 0));
    const size_t bytes = std::strtoull(arguments[3], nullptr, 0);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap(place, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != place) return 3;

    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 8 << 20));
    char **kept;
    int *missing, *out, answer = 0;
    CHECK(cudaMalloc(&kept, 32 * sizeof *kept));
    CHECK(cudaMalloc(&missing, sizeof *missing));
    CHECK(cudaMemset(missing, 0, sizeof *missing));
    // Four times what the heap holds.
    for (int round = 0; round < 16; round++) {
        keep<<<1, 32>>>(kept, 65000, bad && round == 5);
        CHECK(cudaDeviceSynchronize());
        drop<<<1, 32>>>(kept, missing);
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaMalloc(&out, 100 * sizeof *out));
    overrun<<<1, 1>>>(out, 100 + bad);
    CHECK(cudaMemcpy(&answer, missing, sizeof answer, cudaMemcpyDeviceToHost));
    std::printf("missing %d\n", answer);
    CHECK(cudaFree(out));
    CHECK(cudaFree(missing));
    CHECK(cudaFree(kept));
}
