//! The folder.

use crate::counts::{Counts, count};
use crate::file::{self, HEADER};
use crate::key::Key;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    self, AtFlags, CWD, FileType, Mode, OFlags, RawMode, Stat, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// What the name of a file begins with that is being written.
const NEW: &str = "new-";

/// How old such a file is, at least, if who wrote it has ended before it was whole.
const LEFT: Duration = Duration::from_secs(3600);

/// Of what a folder may hold, the part that is free once something had to go: so
/// that not every file that is written has to look for others to remove.
const FREED: u64 = 8;

/// Names to try for a new file.
const TRIES: u32 = 16;

/// Tells the files apart that this process writes.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// The folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be made or opened.
    #[error("the cache {} cannot be used: {error}", .path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is somebody else's.
    #[error(
        "the cache {} belongs to user {owner}, and this is user {user}: what others have written is not used; choose another folder",
        .path.display()
    )]
    Owner {
        /// Its path.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who this is.
        user: u32,
    },
    /// Others may write or read it.
    #[error(
        "the cache {} is open to others (mode {mode:03o}); close it with `chmod 700`, or choose another folder",
        .path.display()
    )]
    Mode {
        /// Its path.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// A cache.
#[derive(Debug)]
pub struct Cache {
    /// Where it is, from the root: the process may change its own folder.
    path: PathBuf,
    /// Bytes at most.
    limit: u64,
    counts: Counts,
}

impl Cache {
    /// The cache in this folder, which is made unless it is there: at most `limit`
    /// bytes of files.
    ///
    /// # Errors
    ///
    /// See [`FolderError`].
    pub fn open(path: &Path, limit: u64) -> Result<Cache, FolderError> {
        let failed = |error: std::io::Error| FolderError::Open {
            path: path.to_owned(),
            error,
        };
        let cache = Cache {
            path: std::path::absolute(path).map_err(failed)?,
            limit,
            counts: Counts::default(),
        };
        if let Some(above) = cache.path.parent() {
            std::fs::create_dir_all(above).map_err(failed)?;
        }
        match fs::mkdirat(CWD, &cache.path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error.into())),
        }
        cache.folder()?;
        Ok(cache)
    }

    /// What it has done.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Opens the folder, and looks whose it is. It is not kept open: a program that
    /// this process may be could close it, and give its number to another file.
    fn folder(&self) -> Result<OwnedFd, FolderError> {
        let failed = |error: Errno| FolderError::Open {
            path: self.path.clone(),
            error: error.into(),
        };
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = fs::openat(CWD, &self.path, flags, Mode::empty()).map_err(failed)?;
        let found = fs::fstat(&folder).map_err(failed)?;
        let user = rustix::process::geteuid().as_raw();
        if found.st_uid != user {
            return Err(FolderError::Owner {
                path: self.path.clone(),
                owner: found.st_uid,
                user,
            });
        }
        match found.st_mode & 0o077 {
            0 => Ok(folder),
            _ => Err(FolderError::Mode {
                path: self.path.clone(),
                mode: found.st_mode & 0o777,
            }),
        }
    }

    /// The result of this key. `None` if there is none, if it is damaged, or if the
    /// folder is not to be used any more.
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let found = self.find(key);
        count(match found {
            Some(_) => &self.counts.found,
            None => &self.counts.missing,
        });
        found
    }

    fn find(&self, key: &Key) -> Option<Vec<u8>> {
        let folder = self.folder().ok()?;
        let name = key.to_string();
        // A pipe would be waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match fs::openat(&folder, &name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return None,
            Err(_) => return self.damaged(&folder, &name),
        };
        let Some(length) = self.length(&file) else {
            return self.damaged(&folder, &name);
        };
        let mut bytes = Vec::with_capacity(length as usize);
        // One byte more: then it is longer than it was.
        let read = File::from(file.try_clone().ok()?)
            .take(length + 1)
            .read_to_end(&mut bytes);
        if read.is_err() || file::read(key, &bytes).is_err() {
            return self.damaged(&folder, &name);
        }
        // It is used: the newest one now. Without it, it would only go sooner.
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let _ = fs::futimens(
            &file,
            &Timestamps {
                last_access: Timespec {
                    tv_sec: 0,
                    tv_nsec: UTIME_OMIT,
                },
                last_modification: now,
            },
        );
        bytes.drain(..HEADER);
        Some(bytes)
    }

    /// Bytes of a file that this user has written, and nobody else can.
    fn length(&self, file: impl AsFd) -> Option<u64> {
        let found = fs::fstat(file).ok()?;
        let is_own = found.st_uid == rustix::process::geteuid().as_raw()
            && found.st_mode & 0o022 == 0
            && is_file(&found);
        let length = u64::try_from(found.st_size).ok()?;
        (is_own && length <= self.limit.max(HEADER as u64)).then_some(length)
    }

    /// Removes what cannot be used, so that it is written anew.
    fn damaged(&self, folder: &OwnedFd, name: &str) -> Option<Vec<u8>> {
        count(&self.counts.damaged);
        // Whoever was faster has removed it.
        let _ = fs::unlinkat(folder, name, AtFlags::empty());
        None
    }

    /// The result of this key is not what its user can read: it is as good as
    /// damaged.
    pub fn reject(&self, key: &Key) {
        count(&self.counts.damaged);
        if let Ok(folder) = self.folder() {
            let _ = fs::unlinkat(folder, key.to_string(), AtFlags::empty());
        }
    }

    /// Keeps a result. What would take more than a quarter of all is not kept: one
    /// result shall not drive all others out. A folder that is full or cannot be
    /// written is counted: the result is there, and the next one computes it again.
    pub fn put(&self, key: &Key, contents: &[u8]) {
        let bytes = (HEADER + contents.len()) as u64;
        if bytes > self.limit / 4 {
            return;
        }
        let written = self.folder().map_err(drop).and_then(|folder| {
            self.write(&folder, key, contents).map_err(drop)?;
            self.evict(&folder).map_err(drop)
        });
        count(match written {
            Ok(()) => &self.counts.written,
            Err(()) => &self.counts.not_written,
        });
    }

    fn write(&self, folder: &OwnedFd, key: &Key, contents: &[u8]) -> std::io::Result<()> {
        let (name, file) = new_file(folder)?;
        let mut file = File::from(file);
        let written = file
            .write_all(&file::written(key, contents))
            .and_then(|()| file.write_all(contents))
            // What a crash leaves of it is found by its hash.
            .and_then(|()| Ok(fs::renameat(folder, &name, folder, key.to_string())?));
        if written.is_err() {
            let _ = fs::unlinkat(folder, &name, AtFlags::empty());
        }
        written
    }

    /// Removes what was not used for longest, until all that is left has room; and
    /// what others have begun to write long ago.
    fn evict(&self, folder: &OwnedFd) -> std::io::Result<()> {
        let now = SystemTime::now();
        let mut files = Vec::new();
        let mut taken = 0u64;
        for entry in fs::Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            // It may be gone already.
            let Ok(found) = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if !is_file(&found) {
                continue;
            }
            if name.to_bytes().starts_with(NEW.as_bytes()) {
                if age(&found, now) > LEFT {
                    let _ = fs::unlinkat(folder, name, AtFlags::empty());
                }
                continue;
            }
            let bytes = u64::try_from(found.st_size).unwrap_or(0);
            taken = taken.saturating_add(bytes);
            files.push((found.st_mtime, found.st_mtime_nsec, name.to_owned(), bytes));
        }
        if taken <= self.limit {
            return Ok(());
        }
        files.sort();
        for (_, _, name, bytes) in files {
            if taken <= self.limit - self.limit / FREED {
                break;
            }
            if fs::unlinkat(folder, name, AtFlags::empty()).is_ok() {
                count(&self.counts.evicted);
            }
            taken -= bytes;
        }
        Ok(())
    }
}

fn is_file(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode as RawMode) == FileType::RegularFile
}

/// How long ago a file was changed; nothing if that is in the future.
fn age(found: &Stat, now: SystemTime) -> Duration {
    let seconds = u64::try_from(found.st_mtime).unwrap_or(0);
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    now.duration_since(changed).unwrap_or_default()
}

/// A file that nobody else writes.
fn new_file(folder: &OwnedFd) -> std::io::Result<(String, OwnedFd)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let mut error = Errno::EXIST;
    for _ in 0..TRIES {
        let name = format!(
            "{NEW}{}-{}-{}",
            rustix::process::getpid().as_raw_nonzero(),
            since.as_ref().map_or(0, Duration::as_nanos),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        match fs::openat(folder, &name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => return Ok((name, file)),
            Err(other) => error = other,
        }
        if error != Errno::EXIST {
            break;
        }
    }
    Err(error.into())
}
