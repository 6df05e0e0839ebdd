// How much memory a program gets: what the device says it has, and for each
// argument whether so many MiB can be allocated, written and read.

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

__global__ void mark(unsigned char *bytes, size_t n) {
    bytes[n - 1] = 7;
}

int main(int argc, char **argv) {
    size_t available, total;
    cudaError_t error = cudaMemGetInfo(&available, &total);
    if (error != cudaSuccess) {
        printf("no device: %s\n", cudaGetErrorName(error));
        return 1;
    }
    printf("total %zu MiB\n", total >> 20);
    for (int at = 1; at < argc; at++) {
        if (argv[at][0] == 'w') {
            // Holds all that it has until its input ends.
            printf("waiting\n");
            fflush(stdout);
            char byte;
            while (read(0, &byte, 1) > 0) {
            }
            continue;
        }
        size_t n = strtoull(argv[at], nullptr, 10) << 20;
        unsigned char *bytes = nullptr, last = 0;
        error = cudaMalloc(&bytes, n);
        if (error == cudaSuccess) {
            mark<<<1, 1>>>(bytes, n);
            error = cudaMemcpy(&last, bytes + n - 1, 1, cudaMemcpyDeviceToHost);
            cudaFree(bytes);
        }
        printf("%s MiB: %s %d\n", argv[at], cudaGetErrorName(error), last);
    }
    return 0;
}
