//! What programs call. A hook converts what it is given, calls the layers
//! below, and converts what they answer.

pub mod answer;
mod buffers;
mod contexts;
mod copies;
mod events;
mod images;
mod judge;
mod kernels;
mod launches;
mod maps;
mod native;
mod parts;
mod programs;
mod queries;
mod session;
mod svm;
pub mod table;
mod waits;
