//! `libringfence.so`: the exported CUDA driver API, each function a thin call into the runtime.
