// Calls through pointers, of functions that take and return what the ABI
// passes in different ways.

struct Pair {
    int *first;
    const char *second;
};

struct Odd {
    char bytes[10];
    short last[1];
};

struct alignas(16) Wide {
    double values[4];
    int *place;
};

typedef void (*Plain)();
typedef int (*Mixed)(char, short, Odd, float, double, Wide, int *);
typedef Pair (*Pairs)(int *, long long);
typedef bool (*Test)(const int *);
typedef Wide (*Wides)(Wide, int *);

__device__ int counter[4];

__device__ __noinline__ void bump() { counter[1] += 1; }
__device__ __noinline__ void drop() { counter[2] -= 1; }
__device__ __noinline__ int sum(char c, short s, Odd odd, float f, double d, Wide wide, int *p) {
    return c + s + odd.bytes[3] + int(f) + int(d) + int(wide.values[1]) + wide.place[c] + p[s];
}
__device__ __noinline__ int none(char, short, Odd, float, double, Wide, int *p) { return *p; }
__device__ __noinline__ Pair forward(int *p, long long n) {
    return {p + n, reinterpret_cast<const char *>(p)};
}
__device__ __noinline__ Pair backward(int *p, long long n) {
    return {p - n, reinterpret_cast<const char *>(p) + n};
}
__device__ __noinline__ bool is_odd(const int *p) { return *p & 1; }
__device__ __noinline__ Wide moved(Wide wide, int *p) {
    wide.place = p + int(wide.values[0]);
    return wide;
}

__device__ Plain plain[2] = {bump, drop};
__device__ Mixed mixed[2] = {sum, none};
__device__ Pairs pairs[2] = {forward, backward};
__device__ Test test = is_odd;
__device__ Wides wides = moved;

struct Base {
    int *kept;
    __device__ virtual int *at(int i) = 0;
    __device__ virtual ~Base() {}
};

struct Left : virtual Base {
    __device__ int *at(int i) override { return kept + i; }
    __device__ virtual int left(const int *p) { return p[1]; }
};

struct Right : virtual Base {
    __device__ int *at(int i) override { return kept - i; }
    __device__ virtual int right(const int *p) { return p[2]; }
};

struct Both : Left, Right {
    int own[4];
    __device__ int *at(int i) override { return own + i; }
    __device__ int right(const int *p) override { return own[0] + *p; }
};

__global__ void through(int *out, int which, Odd odd, Wide wide, Base *given) {
    __shared__ int shared[64];
    int local[16];
    for (int i = 0; i < 16; i++) local[i] = i;
    shared[threadIdx.x] = which;
    __syncthreads();
    plain[which]();
    wide.place = local;
    out[0] = mixed[which](char(which), 3, odd, 1.5f, 2.5, wide, shared);
    const Pair pair = pairs[which](shared, which);
    out[1] = pair.first[which] + pair.second[which];
    out[2] = test(local + which);
    if (test(shared)) out[3] = *wides(wide, shared).place;
    Both both;
    both.kept = local;
    Base *base = which ? given : &both;
    out[4] = *base->at(which);
    Right *right = &both;
    out[5] = right->right(shared + which) + static_cast<Left &>(both).left(local);
    if (which > 7) delete given;
}

__device__ __noinline__ int descend(Test stop, int *p, int n) {
    return stop(p) ? n : descend(stop, p + 1, n + 1);
}

__global__ void recursive(int *out, const int *in, Test stop) {
    int local[32];
    for (int i = 0; i < 32; i++) local[i] = in[i];
    out[threadIdx.x] = descend(stop ? stop : test, local, 0);
}
