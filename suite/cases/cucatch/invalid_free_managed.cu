// bug: a pointer into the middle of an allocation is freed (managed memory)
// category: invalid-free
// expect: rule=invalid-free call=cuMemFree size=1000
#define ALLOCATE cudaMallocManaged
#include "parts/invalid_free.h"
