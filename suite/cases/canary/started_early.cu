// bug: a kernel writes past the end of its buffer when the next one, which it let start early, has ended
// build: arch=90
// run: protect=canary
// expect: rule=canary-overwritten kernel=_Z4latePiS_fi argument=0 at=4 size=128
#include "case.h"

__global__ void late(int *out, int *never, float by, int more) {  // BUG
    cudaTriggerProgrammaticLaunchCompletion();
    float sum = threadIdx.x;
    for (int i = 0; i < 5000; i++) sum = sum * by + 0.5f;
    if (sum < 0) never[0] = 1;
    out[threadIdx.x] = threadIdx.x;
    if (more && threadIdx.x == 0) out[33] = 7;
}

// Does not wait for what is before it.
__global__ void next(int *out) { out[threadIdx.x] = -(int)threadIdx.x; }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *a = zeroed<int>(32), *b = zeroed<int>(32), *c = zeroed<int>(32);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 32;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    for (int round = 0; round < 10; round++) {
        late<<<1, 32, 0, stream>>>(a, c, 1.000001f, bad && round == 5);
        CHECK(cudaLaunchKernelEx(&config, next, b));
        CHECK(cudaStreamSynchronize(stream));
    }
    print_digest("a", a, 32);
    print_digest("b", b, 32);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(c));
}
