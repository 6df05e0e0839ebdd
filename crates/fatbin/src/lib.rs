//! Reads and writes CUDA fat binaries.
