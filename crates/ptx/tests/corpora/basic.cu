// Switches, indirect calls, printf, device data with initializers, textures,
// device memory, assertions: PTX beyond arithmetic.
#include <cassert>
#include <cstdio>

__device__ int counter;
__device__ float table[4] = {1.0f, -2.5f, 3.0f, 4.0f};
__constant__ double coefficients[3] = {0.5, 0.25, 0.125};
__device__ int *pointer = &counter;
__device__ const char *names[3] = {"first", "second\n", "third \"quoted\""};
__device__ long long grid[2][3] = {{1, 2, 3}, {4, 5, 6}};
__managed__ int managed_value = 3;
struct Pair { char tag; int *where; float weight; };
__device__ Pair pairs[2] = {{'a', &counter, 1.5f}, {'b', nullptr, 2.5f}};

typedef int (*Operation)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int subtract(int a, int b) { return a - b; }
__device__ __noinline__ int multiply(int a, int b) { return a * b; }
__device__ Operation operations[3] = {add, subtract, multiply};

__global__ void switches(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    switch (in[i]) {
    case 0: out[i] = clock(); break;
    case 1: out[i] = in[i + 1] * 3; break;
    case 2: atomicAdd(out + i, 5); break;
    case 3: out[i] = __popc(in[i]); break;
    case 4: out[i] = out[i] / (in[i] + 7); break;
    case 5: out[i] = __shfl_xor_sync(0xffffffff, in[i], 1); break;
    case 6: out[i] = __float2int_rn(sinf(in[i])); break;
    case 7: out[i] = managed_value; break;
    default: out[i] = -1;
    }
}

// Dense enough for a jump table.
__global__ void jump_table(int *out, const int *in) {
    int i = threadIdx.x;
    switch (in[i]) {
    case 0: out[i] = clock(); break;
    case 1: out[i] = in[i] * 3; break;
    case 2: out[i] = out[i] / (in[i] + 7); break;
    case 3: out[i] = __popc(in[i]); break;
    case 4: out[i] = __clz(in[i]); break;
    case 5: out[i] = atomicAdd(out, i); break;
    case 6: out[i] = __ffs(in[i]); break;
    case 7: out[i] = i - in[i + 1]; break;
    case 8: out[i] = in[i] ^ i; break;
    case 9: out[i] = __brev(in[i]); break;
    case 10: out[i] = in[i] << (i & 7); break;
    case 11: out[i] = abs(in[i]); break;
    case 12: out[i] = min(in[i], i); break;
    case 13: out[i] = in[in[i]]; break;
    case 14: out[i] = i * i * i; break;
    case 15: out[i] = ~in[i]; break;
    }
}

__device__ __noinline__ __attribute__((noreturn)) void die(int *out) { *out = 1; __trap(); __builtin_unreachable(); }
__global__ void dies(int *out) { if (*out > 3) die(out); }

__global__ void indirect(int *out, int which, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = operations[which](i, *pointer);
}

struct Base { __device__ virtual int get(int) = 0; int bias; };
struct Derived : Base { __device__ int get(int x) override { return x + bias; } };
__global__ void virtual_call(Base *object, int *out) { out[threadIdx.x] = object->get(threadIdx.x); }
__global__ void construct(Derived *place) { new (place) Derived(); }

__global__ void prints(const char *text, double value) {
    printf("%s %d %f %s\n", text, threadIdx.x, value, names[threadIdx.x % 3]);
    assert(value > 0);
    if (value > 1e6) __trap();
}

__global__ void heap(int **out, int n) {
    int *memory = (int *)malloc(n * sizeof(int));
    for (int i = 0; i < n; i++) memory[i] = i;
    out[threadIdx.x] = memory;
    if (n == 4) free(memory);
}

__global__ __launch_bounds__(256, 2) void bounded(Pair p, float *out) {
    __shared__ float tile[32][33];
    extern __shared__ double dynamic[];
    tile[threadIdx.y][threadIdx.x] = p.weight * table[threadIdx.x & 3];
    dynamic[threadIdx.x] = coefficients[threadIdx.y % 3];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x][threadIdx.y] + dynamic[threadIdx.x ^ 1] + grid[1][threadIdx.x % 3];
}

__global__ void local_arrays(int *out, int n) {
    int scratch[40];
    char bytes[13];
    for (int i = 0; i < 40; i++) scratch[(i * n) % 40] = i;
    for (int i = 0; i < 13; i++) bytes[(i * n) % 13] = i;
    out[threadIdx.x] = scratch[threadIdx.x % 40] + bytes[threadIdx.x % 13];
}

__global__ void textures(cudaTextureObject_t t, cudaTextureObject_t layered, cudaSurfaceObject_t s, float4 *out) {
    int x = threadIdx.x, y = threadIdx.y;
    float4 a = tex2D<float4>(t, x + 0.5f, y + 0.5f);
    float b = tex1Dfetch<float>(layered, x);
    float4 c = tex2DLod<float4>(t, x, y, 2.0f);
    float4 d = tex2Dgather<float4>(t, x, y, 1);
    uchar4 e;
    surf2Dread(&e, s, x * 4, y);
    surf2Dwrite(make_uchar4(1, 2, 3, e.x), s, x * 4, y, cudaBoundaryModeTrap);
    out[x] = make_float4(a.x + b, a.y + c.x, a.z + d.y, a.w + e.w);
}

__global__ void grid_constant(const __grid_constant__ Pair p, const int *in, int *out, int select) {
    const int *from = select ? in : (const int *)&p;
    out[threadIdx.x] = from[threadIdx.x];
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__global__ void recursion(int *out) { out[threadIdx.x] = fibonacci(threadIdx.x); }
__device__ __noinline__ Pair swap_pair(Pair a, const Pair &b) { a.where = b.where; return a; }
__global__ void structures(Pair *p) { p[threadIdx.x] = swap_pair(p[threadIdx.x], p[threadIdx.x + 1]); }
__global__ void dynamic_stack(int *out, int n) {
    int *memory = (int *)alloca(n * 4);
    for (int i = 0; i < n; i++) memory[i] = i * out[i];
    out[0] = memory[n / 2];
}
