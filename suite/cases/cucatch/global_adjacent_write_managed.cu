// bug: the first element past a buffer is written (managed memory)
// category: global-oob
// expect: rule=global-out-of-bounds-write function=scale size=1000
#define ALLOCATE cudaMallocManaged
#include "parts/global_adjacent_write.h"
