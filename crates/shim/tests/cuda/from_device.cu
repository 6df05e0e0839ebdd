// A kernel that launches another.
__global__ void child(int *p) { p[threadIdx.x] = 1; }
__global__ void parent(int *p) { child<<<1, 32>>>(p); }

int main() {
    int *p;
    cudaMalloc(&p, 128);
    parent<<<1, 1>>>(p);
    cudaDeviceSynchronize();
}
