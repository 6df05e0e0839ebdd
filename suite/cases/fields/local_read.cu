// bug: built with -G: the index of an array in a struct reaches the field behind it: a read (local memory)
// category: intra-allocation-debug
// build: flags=-G
// expect: rule=intra-allocation-out-of-bounds-read function=edit size=32
#include "../cucatch/parts/fields_local_read.h"
