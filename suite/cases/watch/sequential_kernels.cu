// bug: a kernel writes past its buffer, which is seen while the next one works
// run: protect=watch
// expect: rule=canary-overwritten kernel=attacker while=victim at=0 size=2000
#include "parts/sequential_kernels.h"
