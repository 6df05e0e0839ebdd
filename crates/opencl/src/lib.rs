//! `libringfence_opencl.so`: a layer of OpenCL's loader that puts canaries
//! around the memory of a program, and scans them after each kernel that could
//! reach them (after clARMOR: Erb, Collins and Greathouse, CGO 2017).
//!
//! The loader calls [`table::clInitLayer`] with the functions below, and gets
//! the table that the program's calls go through. Handles stay the platform's
//! own: `objects` holds the data about each object, by handle. Where a loader
//! has no layers, the same library is preloaded into the program and takes the
//! loader's place (`preload`). No query may reveal Ringfence to the program:
//! sizes, reference counts, events and their times are those of the program's
//! own objects.
//!
//! ```text
//! sys ◀─ platform ◀─ objects ◀─ findings ◀─ canaries ◀─ schedule ◀─ api ◀─ preload
//!                                  ▲                                 │
//!                                  └──────────── output ◀────────────┘
//! ```
//!
//! Each module uses only those to its left. Unit tests run the layers over a
//! platform of their own (`platform::fake`).

mod api;
mod canaries;
mod findings;
mod objects;
mod output;
mod platform;
mod preload;
mod schedule;
#[allow(non_camel_case_types, reason = "OpenCL's names")]
mod sys;

pub use api::table;
