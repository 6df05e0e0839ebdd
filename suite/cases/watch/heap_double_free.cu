// bug: under watch alone, a kernel frees the same memory twice
// run: protect=watch
// expect: rule=double-free function=finish_again size=64
#include "../device_heap/parts/double_free.h"
