// bug: a kernel writes before the buffer on which another works, which is seen while that one runs
// run: protect=watch
// expect: rule=canary-overwritten kernel=attacker while=victim at=-1 size=1024
#include "parts/concurrent_kernels.h"
