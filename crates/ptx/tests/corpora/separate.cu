// One of several files to be linked: externs, visible functions, weak
// templates, device variables of other files.
extern __device__ int elsewhere[];
extern __constant__ float scale;
extern __device__ float compute(float x, int *counter);

__device__ int here = 7;

__device__ float exported(float x) { return x * scale; }

template <typename T> __device__ __noinline__ T twice(T x) { return x + x; }

__global__ void linked(float *out) {
    out[threadIdx.x] = compute(twice(out[threadIdx.x]), elsewhere + threadIdx.x) + exported(here);
}
