// bug: an index far past a buffer reads another live one (managed memory)
// category: global-oob
// expect: rule=global-out-of-bounds-read function=scale size=1000
#define ALLOCATE cudaMallocManaged
#include "parts/global_nonadjacent_read.h"
