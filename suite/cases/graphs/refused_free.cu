// bug: a buffer is freed during a capture, in a mode that allows it, and used afterwards; in the other twin the capture refuses to free it
// expect: rule=use-after-free function=fill size=400
#include "case.h"

__global__ void fill(int *numbers) { numbers[threadIdx.x] = 3 * threadIdx.x; }  // BUG

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *numbers = zeroed<int>(100), *more = nullptr;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(
        stream, bad ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal));
    const cudaError_t allocated = cudaMalloc(&more, 400);
    const cudaError_t freed = cudaFree(numbers);
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (!bad) {
        std::printf("%s %s %s\n", cudaGetErrorName(freed), cudaGetErrorName(allocated),
                    cudaGetErrorName(ended));
    }
    (void)cudaGetLastError();
    fill<<<1, 100, 0, stream>>>(numbers);
    FINISH();
    if (!bad) {
        print_digest("numbers", numbers, 100);
        CHECK(cudaFree(numbers));
    } else {
        CHECK(cudaFree(more));
        CHECK(cudaGraphDestroy(graph));
    }
    CHECK(cudaStreamDestroy(stream));
}
