// bug: an allocation is freed twice (device memory)
// category: double-free
// expect: rule=double-free call=cuMemFree size=1000
#define ALLOCATE cudaMalloc
#include "parts/double_free.h"
