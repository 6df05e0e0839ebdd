// bug: a pointer into the middle of an allocation is freed (device memory)
// category: invalid-free
// expect: rule=invalid-free call=cuMemFree size=1000
#define ALLOCATE cudaMalloc
#include "parts/invalid_free.h"
