// bug: a captured kernel writes past a buffer that a relaxed thread has allocated during the capture
// expect: rule=global-out-of-bounds-write function=fill size=400
#include "case.h"

__global__ void fill(int *numbers, int n) {
    if (threadIdx.x < n) numbers[threadIdx.x] = 5 * threadIdx.x;  // BUG
}

// What a call answers during a capture, and what becomes of the capture.
template <typename Call>
void during(const char *name, cudaStream_t stream, cudaStreamCaptureMode thread, Call call) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaThreadExchangeStreamCaptureMode(&thread));
    const cudaError_t answer = call();
    CHECK(cudaThreadExchangeStreamCaptureMode(&thread));
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    std::printf("%s: %s, %s\n", name, cudaGetErrorName(answer), cudaGetErrorName(ended));
    if (graph) CHECK(cudaGraphDestroy(graph));
    (void)cudaGetLastError();
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    cudaStream_t stream, other;
    cudaEvent_t event;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&other));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventRecord(event, other));
    int *numbers = zeroed<int>(1), *more = nullptr;
    CHECK(cudaDeviceSynchronize());
    for (const cudaStreamCaptureMode thread :
         {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed}) {
        during("another stream", stream, thread, [&] { return cudaStreamSynchronize(other); });
        during("its own stream", stream, thread, [&] { return cudaStreamQuery(stream); });
        during("an event", stream, thread, [&] { return cudaEventQuery(event); });
        during("the device", stream, thread, [&] { return cudaDeviceSynchronize(); });
        during("the default stream", stream, thread,
               [&] { return cudaMemset(numbers, 0, sizeof(int)); });
        during("a captured event", stream, thread, [&] {
            CHECK(cudaEventRecord(event, stream));
            return cudaEventQuery(event);
        });
        CHECK(cudaEventRecord(event, other));
    }
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(cudaMalloc(&more, 400));
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
    fill<<<1, 128, 0, stream>>>(more, 100 + bad);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    print_digest("more", more, 100);
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(more));
    CHECK(cudaFree(numbers));
}
