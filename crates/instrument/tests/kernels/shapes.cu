// The shapes of pointer code that nvcc turns into PTX: what provenance must
// follow, and what it must admit that it cannot.
#include <cstdio>
#include <cstdint>

struct Pair { float *first; int n; const float *second; };
struct Node { Node *next; int value; };
struct Big { float *buffers[640]; int n; };
struct Packed { int64_t tag : 16; int64_t bits : 48; };

__device__ int counter;
__device__ float table[256];
static __device__ double hidden[32];
__constant__ float coefficients[64];
__device__ float *global_pointer;

__device__ __noinline__ float read(const float *p, int i) { return p[i]; }
__device__ __noinline__ float *advance(float *p, int i) { return p + i; }
__device__ __noinline__ void write(float *p, int i, float v) { if (i & 1) return; p[i] = v; }
__device__ float twice(float x) { return 2 * x; }
__device__ float half_of(float x) { return x / 2; }
__device__ float (*functions[])(float) = {twice, half_of};

extern "C" {

__global__ void strided(int n, const float *x, float *y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2 * x[i] + y[i];
}
__global__ void by_struct(Pair p) {
    int i = threadIdx.x;
    if (i < p.n) p.first[i] = p.second[i + 1] + read(p.second, i);
    atomicAdd(&counter, 1);
}
__global__ void pointers_in_memory(float **t, int n) {
    float *q = t[threadIdx.x];
    for (int i = 0; i < n; i++) q[i] += 1;
}
__global__ void list(Node *head, int *out) {
    int sum = 0;
    Node *last = nullptr;
    for (Node *node = head; node; node = node->next) { sum += node->value; if (last) last->value = sum; last = node; }
    *out = sum;
}
__global__ void swapped(float *a, float *b, int rounds) {
    for (int r = 0; r < rounds; r++) {
        a[threadIdx.x] = b[threadIdx.x + 1];
        float *t = a; a = b; b = t;
    }
}
__global__ void chosen(float *a, float *b, float *c, int which) {
    float *p = which == 0 ? a : which == 1 ? b : nullptr;
    if (p) p[threadIdx.x] = c[threadIdx.x];
}
__global__ void vectors(const float4 *in, double2 *out, char4 *bytes, int n) {
    int i = threadIdx.x;
    float4 v = in[i];
    out[i] = make_double2(v.x + v.y, v.z + v.w);
    char4 c = bytes[i];
    bytes[n - i] = make_char4(c.w, c.z, c.y, c.x);
}
__global__ void byte_offsets(char *base, const long long *offsets, long long n) {
    long long i = threadIdx.x;
    if (i < n) base[offsets[i]] = base[n - i];
}
__global__ void variables(int i, float v) {
    table[i] = v * coefficients[i & 63];
    table[3] = v;
    hidden[i & 31] += v;
    global_pointer[i] = v;
}
__global__ void calls(float *p, int n) {
    float *q = advance(p, n);
    write(q, threadIdx.x, functions[n & 1](read(p, n)));
}
__global__ void shared_and_local(const float *x, float *out, int n) {
    __shared__ float tile[256];
    extern __shared__ float dynamic[];
    float local[16];
    for (int i = 0; i < 16; i++) local[(i * n) & 15] = x[i];
    tile[threadIdx.x] = local[n & 15];
    dynamic[threadIdx.x] = tile[255 - threadIdx.x];
    __syncthreads();
    float *p = n > 3 ? tile : out;
    p[threadIdx.x] = dynamic[threadIdx.x];
}
__global__ void atomics(int *i, unsigned long long *l, float *f, double *d, int n) {
    atomicAdd(i + n, 1); atomicCAS(l, 1ull, 2ull); atomicExch(f + n, 1.f); atomicMax(i, n); atomicAdd(d, 1.0);
    atomicAdd_system(i, 1); atomicAnd_block(i, 3);
}
__global__ void switched(int *p, int n) {
    switch (n) {
    case 0: p[0] = 1; break; case 1: p[5] = 2; break; case 2: p[7] = p[3]; break; case 3: p[1] = 9; break;
    case 4: p[2] = 1; break; case 5: p[8] = 4; break; case 6: p[n] = n; break; case 7: p[4] = 3; break;
    default: p[9] = 0;
    }
}
__global__ void early(int *p, int n) {
    if (threadIdx.x > 7) return;
    p[threadIdx.x] = n;
    if (p[n] == 3) asm volatile("exit;");
    p[n + 1] = 4;
}
__global__ void many_parameters(Big b) { b.buffers[b.n][threadIdx.x] = 1; b.buffers[3][0] = 2; }
__global__ void by_address(const __grid_constant__ Pair p) {
    const Pair *q = &p;
    p.first[0] = p.second[q->n];
}
__global__ void allocates(int **out, int n) {
    int *p = (int *)malloc(n * sizeof(int));
    if (p) { p[threadIdx.x] = n; out[threadIdx.x] = p; }
}
__global__ void prints(const int *p) { printf("%d %s\n", p[threadIdx.x], "text"); }
__global__ void integers(uintptr_t address, uint64_t n) {
    auto p = reinterpret_cast<int *>((address + 15) & ~uintptr_t(15));
    p[n] = 1;
    auto q = reinterpret_cast<int *>((address ^ n) << 2);
    if (n == 77) *q = 3;
}
__global__ void __launch_bounds__(256, 2) assembly(const int *p, int *out) {
    int v;
    asm volatile("{ .reg .pred q; setp.ne.s32 q, %2, 0; mov.s32 %0, 0; @q ld.global.nc.s32 %0, [%1+4]; }"
                 : "=r"(v) : "l"(p), "r"(threadIdx.x));
    asm volatile("W: .reg .pred u; setp.eq.s32 u, %0, 12345678; @u bra W;" :: "r"(v));
    out[threadIdx.x] = v;
}

}

// Device-side malloc and free: in a kernel, in a function, under a barrier.
struct Link {
    Link *next;
    float value;
};

__device__ __noinline__ Link *prepend(Link *list, float value) {
    Link *link = new Link;
    if (link) {
        link->next = list;
        link->value = value;
    }
    return link;
}

extern "C" __global__ void lists(float *out, int n) {
    Link *list = nullptr;
    for (int i = 0; i < n; i++) list = prepend(list, (float)i);
    __syncthreads();
    float sum = 0;
    while (list) {
        Link *next = list->next;
        sum += list->value;
        delete list;
        list = next;
    }
    out[threadIdx.x] = sum;
}
