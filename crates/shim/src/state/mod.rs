//! The parts of the session: what each feature has to remember, with its own
//! small interface. Nothing here calls the device.

mod captures;
mod exported_pools;
mod guard;
mod heaps;
mod last_words;
mod life;
mod links;
mod modules;
mod named;
mod pitches;
mod replays;
mod threads;
mod times;

pub use captures::{Captures, Outside};
pub use exported_pools::ExportedPools;
pub use guard::Guard;
pub use heaps::Heaps;
pub use last_words::LastWords;
pub use life::Life;
pub use links::{Input, Linked, Links};
pub use modules::{Loaded, Modules};
pub use named::Named;
pub use pitches::{Pitches, Rows};
pub use replays::{
    Child, Destroyed, Executable, GraphMemory, KernelNode, Node, Replays, Shape, Work,
};
pub use threads::Threads;
pub use times::{Pending, Row, TimedKernel, Times};
