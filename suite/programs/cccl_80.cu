// about: reduce, scan and sort of Thrust and CUB, compiled for sm_80
// build: arch=80
// feature: Thrust and CUB
#include "parts/cccl.h"

int main() { return all_cases(); }
