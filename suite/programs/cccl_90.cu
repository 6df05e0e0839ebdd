// about: reduce, scan and sort of Thrust and CUB, compiled for sm_90
// build: arch=90
// feature: Thrust and CUB
#include "parts/cccl.h"

int main() { return all_cases(); }
