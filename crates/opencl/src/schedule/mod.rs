//! When something is scanned: jobs behind the program's commands, what waits
//! for them, and in which order commands use what they share.

mod behind;
mod host;
mod images;
mod job;
mod jobs;
mod launch;
mod state;
mod timing;
mod watched;

pub use host::{HostWrite, MAPPED};
pub use images::ImageCommand;
pub use jobs::PATIENCE;
pub use launch::Launching;
pub use state::Schedule;
