// bug: an index far past a buffer writes another live one (device memory)
// category: global-oob
// expect: rule=global-out-of-bounds-write function=scale size=1000
#define ALLOCATE cudaMalloc
#include "parts/global_nonadjacent_write.h"
