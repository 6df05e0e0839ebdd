// bug: a virtual function, called for objects that another kernel made, runs past the shared array that it gets
// expect: rule=shared-out-of-bounds-read function=weigh size=128
#include "case.h"

struct Weight {
    __device__ virtual int weigh(const int *values, int i) const = 0;
    __device__ virtual ~Weight() {}
};

struct Plain : Weight {
    int factor;
    __device__ Plain(int f) : factor(f) {}
    __device__ int weigh(const int *values, int i) const override { return factor * values[i]; }
};

struct Next : Weight {
    __device__ int weigh(const int *values, int i) const override {
        return values[i + 1];  // BUG
    }
};

__global__ void make(Weight **weights) {
    weights[0] = new Plain(3);
    weights[1] = new Next;
}

__global__ void weigh_all(Weight *const *weights, int *out, int last) {
    __shared__ int values[32];
    __shared__ int others[32];
    values[threadIdx.x] = threadIdx.x;
    others[threadIdx.x] = 100 + threadIdx.x;
    __syncthreads();
    const int i = min(int(threadIdx.x), last);
    out[threadIdx.x] = weights[threadIdx.x & 1]->weigh(values, i) + others[31 - threadIdx.x];
}

__global__ void destroy(Weight **weights) {
    delete weights[0];
    delete weights[1];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    Weight **weights = zeroed<Weight *>(2);
    int *out = zeroed<int>(32);
    make<<<1, 1>>>(weights);
    weigh_all<<<1, 32>>>(weights, out, bad ? 31 : 30);
    destroy<<<1, 1>>>(weights);
    FINISH();
    print_digest("out", out, bad ? 31 : 32);
    CHECK(cudaFree(weights));
    CHECK(cudaFree(out));
}
