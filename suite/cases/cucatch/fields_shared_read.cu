// bug: the index of an array in a struct reaches the field behind it: a read (shared memory)
// category: intra-allocation-oob
// annotated
// expect: rule=intra-allocation-out-of-bounds-read function=edit size=32
#include "parts/fields_shared_read.h"
