//! The CUDA runtime API over the driver API, for devices where NVIDIA's runtime cannot run.
