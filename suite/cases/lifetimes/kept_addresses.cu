// bug: a kernel reads a large buffer that was freed long ago, and that no quarantine keeps
// run: keep-addresses=on quarantine-size=0
// expect: rule=use-after-free function=gather size=5242880
#include "case.h"

__global__ void gather(const int *const *where, int *out) {
    out[threadIdx.x] = where[0][threadIdx.x];  // BUG
}

__global__ void fill(int *data, int value) { data[threadIdx.x] = value; }

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const size_t count = 5 << 18;
    int *old = zeroed<int>(count), *out = zeroed<int>(64);
    const int **where = upload(std::vector<const int *>{old});
    if (bad) CHECK(cudaFree(old));
    for (int round = 0; round < 300; round++) {
        int *other = nullptr;
        CHECK(cudaMalloc(&other, count * sizeof(int)));
        fill<<<1, 64>>>(other, round);
        // A pointer to the middle, and one past the end, stay what they are.
        cudaPointerAttributes attributes;
        CHECK(cudaPointerGetAttributes(&attributes, other + count / 2));
        if (attributes.type != cudaMemoryTypeDevice) return 1;
        CHECK(cudaFree(other));
    }
    gather<<<1, 64>>>(where, out);
    FINISH();
    if (!bad) {
        print_digest("out", out, 64);
        CHECK(cudaFree(old));
    }
    CHECK(cudaFree(where));
    CHECK(cudaFree(out));
}
