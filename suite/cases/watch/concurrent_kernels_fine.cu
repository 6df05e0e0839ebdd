// bug: a kernel writes before a buffer from malloc, on which another works, which is seen while that one runs
// run: protect=watch seed=7
// expect: rule=canary-overwritten kernel=attacker while=victim at=-1 size=1024
#define FINE
#include "parts/concurrent_kernels.h"
