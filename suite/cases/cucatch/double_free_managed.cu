// bug: an allocation is freed twice (managed memory)
// category: double-free
// expect: rule=double-free call=cuMemFree size=1000
#define ALLOCATE cudaMallocManaged
#include "parts/double_free.h"
