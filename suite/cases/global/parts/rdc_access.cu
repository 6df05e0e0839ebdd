// The other translation unit of ../rdc.cu.
__device__ int offset_of_unit = 0;

__device__ void store_checked(int *data, int index, int value) {
    data[index] = value;  // BUG
}
