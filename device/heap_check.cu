// Verifies the blocks of the device heap once: one warp, where no guard is
// resident. `cargo xtask generate` compiles this file to
// `crates/runtime/src/device/heap_check.ptx`.

#include "heap.cuh"
#include "heap_guard.cuh"

extern "C" __global__ void ringfence_heap_check() { scan_blocks(threadIdx.x); }
