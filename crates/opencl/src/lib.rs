//! `libringfence_opencl.so`: a layer of OpenCL's loader that puts canaries
//! around the memory of a program, and looks at them after each kernel that
//! could reach them (after clARMOR: Erb, Collins and Greathouse, CGO 2017).
//!
//! The loader calls [`table::clInitLayer`] with the functions below, and gets
//! the table that the program's calls go through. Handles are the platform's
//! own and stay so: what the layer knows of an object stands in `layer`,
//! by handle. Where a loader has no layers, the same library is preloaded into
//! the program and takes the loader's place (`preload`). Nothing that the
//! program can ask or measure may show that it is
//! watched: sizes, references, events and their times are the program's own.

#![expect(
    clippy::too_many_arguments,
    reason = "lists of arguments that are still to become values"
)]

mod arguments;
mod blocks;
mod buffers;
mod chain;
mod check;
mod contexts;
mod copies;
mod device;
mod events;
mod flags;
#[rustfmt::skip]
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    clippy::type_complexity,
    reason = "as the headers have it"
)]
mod generated;
mod images;
mod jobs;
mod launches;
mod layer;
mod maps;
mod native;
mod parts;
mod preload;
mod programs;
mod queries;
mod reach;
mod report;
mod rounds;
mod shadows;
mod source;
mod staged;
mod svm;
#[allow(non_camel_case_types, reason = "OpenCL's names")]
mod sys;
pub mod table;
mod waits;
mod written;
