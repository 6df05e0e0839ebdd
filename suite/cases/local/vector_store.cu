// bug: a float4 is stored over the end of a local array
// expect: rule=local-out-of-bounds-write function=pack size=56
#include "parts/vector_store.h"
