// bug: without proofs at launches, of a slab of planes that are numbered from the hundredth, the plane before the first is written
// run: prove=off
// expect: rule=global-out-of-bounds-write function=scale size=131072
#include "parts/far_base.h"
