// bug: a kernel reads a buffer right after it was freed (device memory)
// category: use-after-free
// expect: rule=use-after-free function=sum size=1000
#define ALLOCATE cudaMalloc
#include "parts/use_after_free_immediate.h"
