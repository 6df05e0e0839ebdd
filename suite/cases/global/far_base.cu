// bug: of a slab of planes that are numbered from the hundredth, the plane before the first is written
// expect: rule=global-out-of-bounds-write function=scale size=131072
#include "parts/far_base.h"
