//! Results on disk, by what they were computed from: a folder with a file for each.
//!
//! * **A key is a hash of everything that decides a result** ([`Key`]), the sources
//!   of Ringfence included. So nothing that is found is ever out of date, and two
//!   versions share a folder.
//! * **Nothing that is read is believed before it is checked** ([`file`]): its key,
//!   its length, and a hash of its bytes. What is damaged is removed, counted, and
//!   otherwise as if it were not there.
//! * **Files appear whole**, by renaming, so any number of processes may use a folder
//!   at a time.
//! * **The folder belongs to one user.** A file that somebody else could have written
//!   would be code that this user runs. So folder and files are closed to others, and
//!   a folder that is not is refused, each time that it is used.
//! * **It has a size.** What was not used for longest goes.
//!
//! Hashes find accidents. They do not protect from this user's own processes, which
//! could as well change the program that reads the folder.

mod counts;
mod file;
mod folder;
mod key;

pub use counts::Counts;
pub use file::{Damage, HEADER, read, written};
pub use folder::{Cache, FolderError};
pub use key::{Key, KeyOf};
