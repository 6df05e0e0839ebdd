// bug: the first element past a buffer is written (device memory)
// category: global-oob
// expect: rule=global-out-of-bounds-write function=scale size=1000
#define ALLOCATE cudaMalloc
#include "parts/global_adjacent_write.h"
