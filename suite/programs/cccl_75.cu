// about: reduce, scan and sort of Thrust and CUB, compiled for sm_75
// build: arch=75
// feature: Thrust and CUB
#include "parts/cccl.h"

int main() { return all_cases(); }
