// bug: a virtual destructor clears more than the object that it is called for
// expect: rule=local-out-of-bounds-write function=wipe
#include "case.h"

struct Scope {
    __device__ virtual ~Scope() {}
};

__device__ __noinline__ void wipe(int *values, int n) {
    for (int i = 0; i < n; i++) values[i] = 0;  // BUG
}

struct Cleared : Scope {
    int n;
    int values[9];
    __device__ Cleared(int count) : n(count) {
        for (int i = 0; i < 9; i++) values[i] = i;
    }
    __device__ ~Cleared() override { wipe(values, n); }
};

struct Counted : Scope {
    int *count;
    __device__ Counted(int *c) : count(c) {}
    __device__ ~Counted() override { atomicAdd(count, 1); }
};

__device__ __noinline__ void end(Scope *scope) { scope->~Scope(); }

__global__ void scopes(int *count, int n) {
    alignas(Cleared) char place[sizeof(Cleared)];
    alignas(Counted) char other[sizeof(Counted)];
    Scope *cleared = new (place) Cleared(n);
    Scope *counted = new (other) Counted(count);
    end(threadIdx.x & 1 ? counted : cleared);
    end(threadIdx.x & 1 ? cleared : counted);
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *count = zeroed<int>(1);
    scopes<<<1, 32>>>(count, bad ? 11 : 9);
    FINISH();
    print_digest("count", count, 1);
    CHECK(cudaFree(count));
}
