// bug: a kernel frees the same memory twice
// expect: rule=double-free function=finish size=64
#include "parts/double_free.h"
