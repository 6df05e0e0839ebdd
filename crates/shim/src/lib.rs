//! `libringfence.so`: stands in for `libcuda.so.1`. Exports every function
//! that cuda.h declares, each a jump through one table, and hooks those that
//! load code, move memory's bounds, launch or wait.
//!
//! ```text
//! program ── cuMemAlloc_v2 (exports) ─▶ jmp TABLE[i] ─┬▶ hook ─▶ device's function, runtime
//!                                                     ├▶ device's function
//!                                                     ├▶ "not supported" stub
//!                                                     └▶ start stub (until the first call)
//! ```
//!
//! Hooks are thin: they read C memory, call the device with the program's own
//! arguments, and tell the runtime. Results pass through unchanged. No lock is
//! held across a call of the device, and nothing heavy happens before the
//! program's first CUDA call.

mod annotations;
mod cudart_export;
mod environment;
mod exports;
mod failure;
mod hooks;
mod image;
mod launcher;
mod load;
mod nvtx;
mod output;
mod positions;
mod process;
mod queries;
mod resolver;
mod session;
mod start;
mod state;
mod stderr;
mod table;
mod timing;
