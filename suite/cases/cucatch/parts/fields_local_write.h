#pragma once
#include "record.h"

template <bool annotated>
__global__ void edit(int *out, int index, int pick) {
    Record record;
    for (int i = 0; i < 8; i++) record.values[i] = i * pick;
    record.limit = threadIdx.x;
    for (int i = 0; i < 7; i++) record.tail[i] = -i;
    int *values = part<annotated>(record.values, sizeof record.values);
    values[index] = -9;  // BUG
    out[threadIdx.x] = values[pick] + record.limit + record.tail[pick];
}

int main(int argc, char **argv) {
    const int bad = is_bad(argc, argv);
    int *out = zeroed<int>(4);
    auto kernel = is_annotated(argc, argv) ? edit<true> : edit<false>;
    kernel<<<1, 4>>>(out, bad ? 8 : 7, 2);
    FINISH();
    print_digest("out", out, 4);
    CHECK(cudaFree(out));
}
