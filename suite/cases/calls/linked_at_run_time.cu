// bug: of a module that the driver links of two PTX texts, one writes behind a buffer
// expect: rule=global-out-of-bounds-write function=put size=256
#include "case.h"
#include <cuda.h>

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

// out[i] = i
const char *put = R"(.version 7.5
.target sm_75
.address_size 64
.file 1 "linked_at_run_time.cu"
.visible .func put(.param .b64 out, .param .b32 i)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [i];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    .loc 1 42 5
    st.u32 [%rd3], %r1; // BUG
    ret;
}
)";

// if (threadIdx.x < n) put(out, threadIdx.x)
const char *fill = R"(.version 7.5
.target sm_75
.address_size 64
.extern .func put(.param .b64 out, .param .b32 i);
.visible .entry fill(.param .u64 out, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra $end;
    {
    .param .b64 a;
    .param .b32 b;
    st.param.b64 [a], %rd1;
    st.param.b32 [b], %r2;
    call put, (a, b);
    }
$end:
    ret;
}
)";

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(64);
    auto create = entry_point<decltype(&cuLinkCreate)>("cuLinkCreate");
    auto add = entry_point<decltype(&cuLinkAddData)>("cuLinkAddData");
    auto complete = entry_point<decltype(&cuLinkComplete)>("cuLinkComplete");
    auto destroy = entry_point<decltype(&cuLinkDestroy)>("cuLinkDestroy");
    auto load = entry_point<decltype(&cuModuleLoadData)>("cuModuleLoadData");
    auto find = entry_point<decltype(&cuModuleGetFunction)>("cuModuleGetFunction");
    auto launch = entry_point<decltype(&cuLaunchKernel)>("cuLaunchKernel");
    CUlinkState linker;
    CHECK_DRIVER(create(0, nullptr, nullptr, &linker));
    for (const char *text : {put, fill})
        CHECK_DRIVER(add(linker, CU_JIT_INPUT_PTX, const_cast<char *>(text), std::strlen(text) + 1,
                         "text", 0, nullptr, nullptr));
    void *image = nullptr;
    size_t size = 0;
    CHECK_DRIVER(complete(linker, &image, &size));
    CUmodule module;
    CHECK_DRIVER(load(&module, image));
    CHECK_DRIVER(destroy(linker));
    CUfunction function;
    CHECK_DRIVER(find(&function, module, "fill"));
    int n = 64 + bad;
    void *arguments[] = {&out, &n};
    CHECK_DRIVER(launch(function, 1, 1, 1, 96, 1, 1, 0, nullptr, arguments, nullptr));
    FINISH();
    print_digest("out", out, 64);
    CHECK(cudaFree(out));
}
