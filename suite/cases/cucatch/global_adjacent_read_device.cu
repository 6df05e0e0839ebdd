// bug: the first element past a buffer is read (device memory)
// category: global-oob
// expect: rule=global-out-of-bounds-read function=scale size=1000
#define ALLOCATE cudaMalloc
#include "parts/global_adjacent_read.h"
