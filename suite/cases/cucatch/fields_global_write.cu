// bug: the index of an array in a struct reaches the field behind it: a write (global memory)
// category: intra-allocation-oob
// annotated
// expect: rule=intra-allocation-out-of-bounds-write function=edit size=32
#define ALLOCATE cudaMalloc
#include "parts/fields_global_write.h"
