// bug: a kernel writes one element past its buffer, which is seen while it goes on
// run: protect=watch
// expect: rule=canary-overwritten kernel=overrun while=overrun at=0 size=4000
#include "parts/single_kernel.h"
