// Kernels for tests of the device heap. Each thread has slots of its own.
#include <cstdlib>

struct Slot {
    unsigned char *block;
    unsigned long long size;
};

__device__ unsigned step(unsigned &state) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

__device__ unsigned long long size_of_block(unsigned &state, unsigned most) {
    // Small blocks most of the time, and every class now and then.
    unsigned bits = step(state) % 32;
    unsigned cap = bits < 24 ? 300 : most;
    return step(state) % (cap + 1);
}

// Allocates and frees at random; what is in a block must stay as it was
// written. errors[0]: blocks that changed, errors[1]: misaligned ones,
// errors[2]: allocations that failed.
extern "C" __global__ void churn(Slot *slots, unsigned per_thread, unsigned rounds, unsigned most, unsigned seed,
                                 unsigned *errors) {
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned state = seed * 7919 + thread * 104729 + 1;
    Slot *mine = slots + thread * per_thread;
    for (unsigned i = 0; i < rounds; i++) {
        Slot *slot = mine + step(state) % per_thread;
        if (slot->block) {
            if (slot->size) {
                unsigned char mark = (unsigned char)((unsigned long long)slot->block >> 4);
                if (slot->block[0] != mark || slot->block[slot->size - 1] != mark) atomicAdd(errors, 1);
            }
            free(slot->block);
            slot->block = nullptr;
        } else {
            slot->size = size_of_block(state, most);
            slot->block = (unsigned char *)malloc(slot->size);
            if (!slot->block) { atomicAdd(errors + 2, 1); continue; }
            if ((unsigned long long)slot->block % 16) atomicAdd(errors + 1, 1);
            if (slot->size) {
                unsigned char mark = (unsigned char)((unsigned long long)slot->block >> 4);
                slot->block[0] = mark;
                slot->block[slot->size - 1] = mark;
            }
        }
    }
}

extern "C" __global__ void release(Slot *slots, unsigned count) {
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < count) {
        free(slots[thread].block);
        slots[thread].block = nullptr;
    }
}

// Allocates until there is no more, chained through the blocks; then frees all.
extern "C" __global__ void exhaust(unsigned long long size, unsigned *count) {
    void **last = nullptr;
    unsigned n = 0;
    for (;;) {
        void **block = (void **)malloc(size);
        if (!block) break;
        *block = last;
        last = block;
        n++;
    }
    while (last) {
        void **next = (void **)*last;
        free(last);
        last = next;
    }
    *count = n;
}

extern "C" __global__ void take(void **out, unsigned long long size) { *out = malloc(size); }
extern "C" __global__ void drop(void **in) { free(*in); }
extern "C" __global__ void drop_argument(char *pointer, long long offset) { free(pointer + offset); }
extern "C" __global__ void touch(unsigned char **in, long long offset) { (*in)[offset] = 1; }
extern "C" __global__ void touch_argument(unsigned char *in, long long offset) { in[offset] = 1; }
struct Node { Node *next; int value; };
extern "C" __global__ void objects(int *out) {
    Node *head = nullptr;
    for (int i = 0; i < 10; i++) {
        Node *node = new Node;
        node->next = head;
        node->value = i;
        head = node;
    }
    int sum = 0;
    for (Node *at = head; at;) {
        Node *next = at->next;
        sum += at->value;
        delete at;
        at = next;
    }
    *out = sum;
}
extern "C" __global__ void use_after(int *out, int bad) {
    int *block = (int *)malloc(40);
    block[3] = 5;
    *out = block[3];
    free(block);
    if (bad) block[4] = 6;
}
// One thread frees, all use.
extern "C" __global__ void use_after_barrier(int *out, int bad) {
    __shared__ int *shared;
    if (threadIdx.x == 0) shared = (int *)malloc(4 * blockDim.x);
    __syncthreads();
    int *block = shared;
    block[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = block[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(block);
    __syncthreads();
    if (bad && threadIdx.x == 5) block[threadIdx.x] = 1;
}
