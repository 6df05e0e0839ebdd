// bug: the first element past a buffer is read (managed memory)
// category: global-oob
// expect: rule=global-out-of-bounds-read function=scale size=1000
#define ALLOCATE cudaMallocManaged
#include "parts/global_adjacent_read.h"
