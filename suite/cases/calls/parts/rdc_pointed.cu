// The other file of rdc_pointer.cu.
typedef void (*Put)(int *data, int i);

__device__ void put_there(int *data, int i) {
    data[i] = -i;  // BUG
}

__device__ Put put_pointer = put_there;
