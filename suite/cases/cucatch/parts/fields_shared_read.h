#pragma once
#include "record.h"

template <bool annotated>
__global__ void edit(int *out, int index, int pick) {
    __shared__ Record records[4];
    Record &record = records[threadIdx.x];
    for (int i = 0; i < 8; i++) record.values[i] = i;
    record.limit = threadIdx.x;
    for (int i = 0; i < 7; i++) record.tail[i] = -i;
    int *values = part<annotated>(record.values, sizeof record.values);
    int value = values[index];  // BUG
    out[threadIdx.x] = value + values[0] + record.limit + record.tail[pick];
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
