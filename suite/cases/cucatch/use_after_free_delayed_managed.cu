// bug: a kernel reads a freed buffer whose place another allocation has taken (managed memory)
// category: use-after-free
// expect: rule=use-after-free function=sum size=1000
#define ALLOCATE cudaMallocManaged
#include "parts/use_after_free_delayed.h"
