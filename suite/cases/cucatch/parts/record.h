// A struct with arrays whose neighbours are fields of the same struct.
#pragma once
#include "annotate.h"

struct Record {
    int id;
    int values[8];
    int limit;
    int tail[7];
};
