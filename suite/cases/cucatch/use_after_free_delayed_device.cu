// bug: a kernel reads a freed buffer whose place another allocation has taken (device memory)
// category: use-after-free
// expect: rule=use-after-free function=sum size=1000
#define ALLOCATE cudaMalloc
#include "parts/use_after_free_delayed.h"
