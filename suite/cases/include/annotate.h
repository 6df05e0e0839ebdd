// For cases whose bug shows only when the program says where its parts are.
#pragma once
#include "case.h"
#include "ringfence.h"

// `pointer`, held to its own `bytes` if the kernel is the annotated one.
template <bool annotated, typename T>
__device__ __forceinline__ T *part(T *pointer, size_t bytes) {
    if constexpr (annotated)
        return ringfence_bounds(pointer, bytes);
    else
        return pointer;
}
