// Memory comes from ALLOCATE.
#pragma once
#include "record.h"

template <bool annotated>
__global__ void edit(Record *records, int *out, int index, int pick) {
    Record &record = records[threadIdx.x];
    int *values = part<annotated>(record.values, sizeof record.values);
    int value = values[index];  // BUG
    out[threadIdx.x] = value + values[0] + record.limit;
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    const int n = 4;
    Record *records = nullptr;
    CHECK(ALLOCATE(&records, n * sizeof(Record)));
    CHECK(cudaMemset(records, 0, n * sizeof(Record)));
    int *out = zeroed<int>(n);
    auto kernel = is_annotated(argc, argv) ? edit<true> : edit<false>;
    kernel<<<1, n>>>(records, out, bad ? 8 : 7, 2);
    FINISH();
    print_digest("out", out, n);
    CHECK(cudaFree(records));
    CHECK(cudaFree(out));
}
