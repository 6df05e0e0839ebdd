// bug: a kernel writes past a buffer from malloc, which is seen while the next one works
// run: protect=watch seed=7
// expect: rule=canary-overwritten kernel=attacker while=victim at=0 size=2000
#define FINE
#include "parts/sequential_kernels.h"
