// bug: a launch through the driver API, with its arguments packed in a buffer
// expect: rule=global-out-of-bounds-write function=driver_fill size=256
#include "case.h"
#include <cuda.h>

__global__ void driver_fill(int *out, int n) {
    int i = threadIdx.x;
    if (i < n)
        out[i] = 5 * i;  // BUG
}

#define CHECK_DRIVER(call)                                                       \
    do {                                                                         \
        CUresult status_ = (call);                                               \
        if (status_ != CUDA_SUCCESS) {                                           \
            std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call,   \
                         static_cast<int>(status_));                             \
            std::exit(1);                                                        \
        }                                                                        \
    } while (0)

template <typename F>
F entry_point(const char *name) {
    void *function = nullptr;
    cudaDriverEntryPointQueryResult result;
    CHECK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess) {
        std::fprintf(stderr, "%s is not there\n", name);
        std::exit(1);
    }
    return reinterpret_cast<F>(function);
}

int main() {
    const int n = 64;
    CHECK(cudaFree(nullptr));
    auto memory_allocate = entry_point<decltype(&cuMemAlloc)>("cuMemAlloc");
    auto memory_set = entry_point<decltype(&cuMemsetD32)>("cuMemsetD32");
    auto launch = entry_point<decltype(&cuLaunchKernel)>("cuLaunchKernel");
    CUdeviceptr out = 0;
    CHECK_DRIVER(memory_allocate(&out, n * sizeof(int)));
    CHECK_DRIVER(memory_set(out, 0, n));
    cudaFunction_t function;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(driver_fill)));
    struct {
        CUdeviceptr out;
        int n;
    } arguments = {out, n + bad};
    size_t size = sizeof(CUdeviceptr) + sizeof(int);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CHECK_DRIVER(launch(reinterpret_cast<CUfunction>(function), 1, 1, 1, 96, 1, 1, 0, nullptr,
                        nullptr, extra));
    FINISH();
    print_digest("out", reinterpret_cast<int *>(out), n);
}
