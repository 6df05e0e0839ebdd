//! What was compiled, on disk: it outlives the manager. A file holds an image, with
//! what the judge has found in its text and what the pass has claimed about it.
//!
//! Verdicts are kept, so who could write a file could have anything loaded. The
//! folder is the manager's user's alone ([`cache`]), and nothing of a tenant gets
//! there but as part of a key, or as what the judge and the driver have made of it.

use super::steps::{Claims, Judged};
use super::wire::{self, Longest};
use super::{claims, steps};
use crate::device::DeviceChoice;
use cache::{Cache, Key};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What says which driver the system has.
const DRIVER_VERSION: &str = "/proc/driver/nvidia/version";

/// The file names of drivers.
const DRIVER: &str = "/libcuda.so";

/// A result on disk.
pub(super) struct Kept {
    pub(super) claims: Claims,
    pub(super) judged: Judged,
    /// What the driver's compiler has made; on the CPU device, the text.
    pub(super) code: Vec<u8>,
}

/// Results on disk.
pub(crate) struct Store {
    cache: Cache,
    /// What decides a result besides the code: device, compute capability, driver.
    environment: Vec<u8>,
}

impl Store {
    /// Results in a cache, for this device.
    ///
    /// # Errors
    ///
    /// It is not known which driver compiles.
    pub(crate) fn new(
        cache: Cache,
        device: &DeviceChoice,
        capability: u32,
    ) -> Result<Store, String> {
        let compiles = match device {
            DeviceChoice::Cpu(_) => "the CPU device".to_owned(),
            DeviceChoice::Gpu(path) => driver(path.as_deref())?,
        };
        Ok(Store {
            cache,
            environment: format!("{capability} {compiles}").into_bytes(),
        })
    }

    /// What it has done.
    pub(crate) fn counts(&self) -> &cache::Counts {
        self.cache.counts()
    }

    pub(super) fn key(&self, code: &[u8]) -> Key {
        let form = format!("{:?}", steps::FORM);
        Key::of("module of a tenant")
            .and(&self.environment)
            .and(form.as_bytes())
            .and(code)
            .key()
    }

    /// The result of a module.
    pub(super) fn get(&self, key: &Key) -> Option<Kept> {
        let bytes = self.cache.get(key)?;
        let kept = read(&bytes);
        if kept.is_none() {
            self.cache.reject(key);
        }
        kept
    }

    /// Keeps the result of a module.
    pub(super) fn put(&self, key: &Key, kept: &Kept) {
        let mut bytes = Vec::new();
        // Into memory, it is written.
        if wire::write(&mut bytes, &(&kept.claims, &kept.judged), &kept.code).is_ok() {
            self.cache.put(key, &bytes);
        }
    }

    /// The result of a module cannot be used after all.
    pub(super) fn reject(&self, key: &Key) {
        self.cache.reject(key);
    }
}

/// What a file holds, if it fits together as it would have to right after it was
/// compiled.
fn read(mut bytes: &[u8]) -> Option<Kept> {
    let longest = Longest {
        message: bytes.len() as u64,
        payload: bytes.len() as u64,
    };
    let ((claims, judged), code) = wire::read::<(Claims, Judged)>(&mut bytes, longest).ok()?;
    let is_whole = bytes.is_empty() && claims::check(&claims, &judged).is_ok();
    is_whole.then_some(Kept {
        claims,
        judged,
        code,
    })
}

/// Which driver compiles: the version that the system says, and the library's file,
/// whose name has its version.
fn driver(path: Option<&Path>) -> Result<String, String> {
    let version = std::fs::read_to_string(DRIVER_VERSION).unwrap_or_default();
    let path = match path {
        Some(path) => path.to_owned(),
        None => loaded()?,
    };
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = path.canonicalize().map_err(told)?;
    let found = file.metadata().map_err(told)?;
    Ok(format!(
        "{version} {} {} {}.{}",
        file.display(),
        found.size(),
        found.mtime(),
        found.mtime_nsec()
    ))
}

/// The driver's library that this process has loaded.
fn loaded() -> Result<PathBuf, String> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|error| error.to_string())?;
    let paths = maps
        .lines()
        .filter_map(|line| Some(&line[line.find('/')?..]));
    let mut drivers = paths.filter(|path| path.contains(DRIVER));
    let driver = drivers.next().ok_or("the driver's library is not found")?;
    Ok(driver.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::steps::{Global, Place, Relocation};

    fn kept() -> Kept {
        let global = Global {
            name: "table".into(),
            size: 16,
            alignment: 8,
        };
        let relocation = Relocation {
            holder: Place::Placed(0),
            offset: 8,
            bytes: 8,
            shift: 0,
            target: 0,
            addend: 0,
        };
        Kept {
            claims: Claims {
                relocations: vec![relocation],
                may_fail: true,
            },
            judged: Judged {
                kernels: Vec::new(),
                constants: vec!["c".into()],
                globals: vec![global],
            },
            code: b"code".to_vec(),
        }
    }

    fn store(folder: &Path, capability: u32) -> Store {
        let cache = Cache::open(folder, 1 << 20).unwrap();
        Store::new(cache, &DeviceChoice::Cpu(1), capability).unwrap()
    }

    #[test]
    fn what_was_kept_is_found_for_the_same_device() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let own = store(&path, 90);
        let (key, whole) = (own.key(b"module"), kept());
        assert!(own.get(&key).is_none());
        own.put(&key, &whole);
        let found = store(&path, 90).get(&key).unwrap();
        assert_eq!((found.claims, found.judged), (whole.claims, whole.judged));
        assert_eq!(found.code, b"code");
        assert_ne!(store(&path, 80).key(b"module"), key);
        assert_ne!(own.key(b"modulf"), key);
    }

    #[test]
    fn claims_that_do_not_fit_are_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let own = store(&folder.path().join("cache"), 90);
        let key = own.key(b"module");
        let mut wrong = kept();
        wrong.claims.relocations[0].offset = 9;
        own.put(&key, &wrong);
        assert!(own.get(&key).is_none());
        let damaged = &own.counts().damaged;
        assert_eq!(damaged.load(std::sync::atomic::Ordering::Relaxed), 1);
        own.put(&key, &kept());
        assert!(own.get(&key).is_some());
        // More than a result, and less.
        for bytes in [&[0; 40][..], b"", b"x"] {
            own.cache.put(&key, bytes);
            assert!(own.get(&key).is_none(), "{bytes:?}");
        }
    }
}
