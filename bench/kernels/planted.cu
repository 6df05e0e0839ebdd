// Wrong sizes planted in calls of Thrust, which is compiled to machine code alone.
//
//     planted --list        a JSON line for each case
//     planted NAME wrong    makes the call with the wrong size
//     planted NAME right    the same with the right one
#include <cstdio>
#include <cstring>
#include <string>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t error = call;                                                          \
        if (error != cudaSuccess) {                                                        \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));            \
            return 1;                                                                      \
        }                                                                                  \
    } while (0)

static const size_t COUNT = 1 << 20;

struct Double {
    __device__ int operator()(int value) const { return 2 * value; }
};

int main(int argc, char **argv) {
    if (argc == 2 && !std::strcmp(argv[1], "--list")) {
        struct {
            const char *name, *call, *wrong;
        } cases[] = {
            {"thrust_reduce", "reduce", "half of the input is there"},
            {"thrust_transform", "transform", "half of the output is there"},
            {"thrust_sort", "sort", "half of the data is there"},
        };
        for (auto &one : cases)
            std::printf("{\"case\":\"%s\",\"library\":\"Thrust\",\"call\":\"%s\",\"wrong\":\"%s\",\"bytes\":%zu}\n",
                        one.name, one.call, one.wrong, COUNT * sizeof(int));
        return 0;
    }
    if (argc != 3) return 2;
    std::string name = argv[1];
    size_t n = std::strcmp(argv[2], "wrong") ? COUNT : 2 * COUNT;
    int *data = nullptr, *large = nullptr;
    CHECK(cudaMalloc(&data, COUNT * sizeof(int)));
    CHECK(cudaMalloc(&large, 2 * COUNT * sizeof(int)));
    CHECK(cudaMemset(data, 0, COUNT * sizeof(int)));
    CHECK(cudaMemset(large, 0, 2 * COUNT * sizeof(int)));
    try {
        if (name == "thrust_reduce") std::printf("%d\n", thrust::reduce(thrust::device, data, data + n));
        else if (name == "thrust_transform") thrust::transform(thrust::device, large, large + n, data, Double());
        else if (name == "thrust_sort") thrust::sort(thrust::device, data, data + n);
        else return 2;
        CHECK(cudaDeviceSynchronize());
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
