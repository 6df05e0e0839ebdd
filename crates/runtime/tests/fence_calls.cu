// Kernels with tables of addresses, frames that others write, and calls through
// pointers. The words of a launch decide where their accesses go.

__device__ int numbers[64] = {1, 2, 3, 5, 8, 13, 21, 34};
__device__ int *places[4] = {numbers, numbers + 3, numbers + 60, numbers + 8};
struct Node {
    short value;
    const int *data;
};
__device__ Node nodes[2] = {{5, numbers + 1}, {7, numbers + 2}};
// (Without optimization, constants are read by generic pointers, which are
// refused.)
#ifdef __CUDACC_DEBUG__
__device__ int *fixed[2] = {numbers + 4, numbers};
#else
__constant__ int *fixed[2] = {numbers + 4, numbers};
#endif

extern "C" __global__ void tables(int *out, const long *w) {
    *places[w[0]] += 3;
    out[0] = *fixed[w[1]] + nodes[w[2]].value + nodes[w[2]].data[w[3]];
    *fixed[0] = out[0];
    for (int i = 0; i < 64; i++) out[i + 1] = numbers[i];
}

static __device__ __noinline__ int sum(const int *p, long n, long step) {
    int s = 0;
    for (long i = 0; i < n; i++) s = s * 3 + p[i * step];
    return s;
}

static __device__ __noinline__ int fill(int *p, long at, int v) {
    int own[12];
    for (int i = 0; i < 12; i++) own[i] = v * i;
    p[at] = sum(own, 12, 1);
    own[at & 7] += 5;
    return sum(own, at & 7, at & 1) + p[0];
}

static __device__ __noinline__ void through(int **p, long at, int v) { (*p)[at] += v; }

extern "C" __global__ void frames(int *out, const long *w) {
    int t[16], u[4] = {9, 8, 7, 6};
    for (int i = 0; i < 16; i++) t[i] = i;
    int *p = (w[0] & 1) ? t : out;
    int s = fill(t, w[0], 3) + fill(u, w[1] & 3, 5) + fill(out, w[2], 7);
    through(&p, w[3], s);
    out[20] = sum(t, 16, 1) + sum(u, 4, 1) * 7 + s;
    // Whatever was written, the call returned here.
    out[21] = 0x600d;
}

struct Shape {
    int size;
    __device__ Shape(int size) : size(size) {}
    virtual __device__ int area(int k) { return size * k; }
};
struct Square : Shape {
    __device__ Square(int size) : Shape(size) {}
    __device__ int area(int k) override { return size * size + k; }
};

static __device__ __noinline__ int add(int x) { return x + 17; }
static __device__ __noinline__ int twice(int x) {
    int own[4] = {x, x, 1, 2};
    return sum(own, 4, 1);
}
typedef int (*Function)(int);
__device__ Function functions[3] = {add, twice, add};

extern "C" __global__ void virtuals(int *out, const long *w) {
    Square square(5);
    Shape shape(3);
    Shape *shapes[2] = {&shape, &square};
    Function function = functions[w[0]];
    // An address that nobody gave.
    if (w[2] > 3) function = (Function)w[2];
    // A table of functions that the program wrote itself.
    if (w[3] > 3) *(long *)&shape = w[3];
    out[threadIdx.x] = shapes[w[1]]->area(7) + function(threadIdx.x) + (function == add);
}
