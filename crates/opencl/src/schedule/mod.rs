//! When scans are made: jobs behind the program's commands, the commands that
//! wait for them, and the order in which commands use shared copies.

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
