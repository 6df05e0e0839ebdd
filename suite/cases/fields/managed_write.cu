// bug: built with -G: the index of an array in a struct reaches the field behind it: a write (managed memory)
// category: intra-allocation-debug
// build: flags=-G
// expect: rule=intra-allocation-out-of-bounds-write function=edit size=32
#define ALLOCATE cudaMallocManaged
#include "../cucatch/parts/fields_global_write.h"
