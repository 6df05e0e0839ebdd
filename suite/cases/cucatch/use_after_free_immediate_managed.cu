// bug: a kernel reads a buffer right after it was freed (managed memory)
// category: use-after-free
// expect: rule=use-after-free function=sum size=1000
#define ALLOCATE cudaMallocManaged
#include "parts/use_after_free_immediate.h"
