// bug: built with -G: a float4 is stored over the end of a local array, into the padding of the frame
// build: flags=-G
// expect: rule=local-out-of-bounds-write function=pack size=56
#include "parts/vector_store.h"
