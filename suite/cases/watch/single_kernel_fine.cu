// bug: a kernel writes one element past a buffer from malloc, which is seen while it goes on
// run: protect=watch seed=7
// expect: rule=canary-overwritten kernel=overrun while=overrun at=0 size=4000
#define FINE
#include "parts/single_kernel.h"
