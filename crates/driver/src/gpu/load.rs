//! Finds the real libcuda and fills the table from it.
//!
//! It must be opened by absolute path: the name `libcuda.so.1` resolves to
//! Ringfence's own library, which is preloaded.

use crate::resolver::REVISIONS;
use crate::sys::{CUdriverProcAddress_flags, CUdriverProcAddressQueryResult, CUresult};
use crate::{Api, COUNT, FUNCTIONS, index, signatures};
use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Oldest driver that Ringfence works with: 12.0, as cuDriverGetVersion says.
pub const OLDEST_DRIVER: u32 = 12000;

/// The exported symbol by which Ringfence recognizes its own library.
pub const OWN_SYMBOL: &CStr = c"ringfence_is_loaded";

/// Where distributions and container toolkits put the driver's library.
const FOLDERS: [&str; 7] = [
    "/usr/local/cuda/compat",
    "/usr/local/nvidia/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib64",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
];

/// Why there is no real driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No file to open.
    #[error(
        "no NVIDIA driver: libcuda.so.1 is in none of {searched}; install the driver, name its library with \
         the setting `driver`, or choose `--device cpu`"
    )]
    NotFound {
        /// Folders that were searched, separated by commas.
        searched: String,
    },
    /// The dynamic linker refuses the file.
    #[error("the NVIDIA driver {path} cannot be loaded: {reason}")]
    Load {
        /// The file.
        path: String,
        /// The linker's message.
        reason: String,
    },
    /// The file is Ringfence's own library, or no driver library at all.
    #[error("{path} is not the NVIDIA driver's library: {reason}")]
    NotADriver {
        /// The file.
        path: String,
        /// How that was detected.
        reason: &'static str,
    },
    /// The driver is too old.
    #[error(
        "the NVIDIA driver {path} supports CUDA {major}.{minor}, Ringfence needs 12.0 or later; \
         update the driver (525.60.13 or later)"
    )]
    TooOld {
        /// The file.
        path: String,
        /// Major version that it supports.
        major: u32,
        /// Minor version that it supports.
        minor: u32,
    },
}

/// The library stays open until the process ends.
pub(super) struct Library {
    pub path: PathBuf,
    pub api: Api,
    pub version: u32,
    handle: *mut c_void,
}

// SAFETY: a dlopen handle may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: as above; dlsym is thread-safe.
unsafe impl Sync for Library {}

impl Library {
    /// Opens `path`, or the first libcuda.so.1 found.
    pub fn open(path: Option<&Path>) -> Result<Library, OpenError> {
        match path {
            Some(path) => Library::load(path),
            None => Library::load(&find()?),
        }
    }

    fn load(path: &Path) -> Result<Library, OpenError> {
        let text = path.display().to_string();
        let refuse = |reason: &str| OpenError::Load {
            path: text.clone(),
            reason: reason.to_owned(),
        };
        // A bare name would resolve to a library that is loaded already.
        let absolute = path
            .canonicalize()
            .map_err(|error| refuse(&error.to_string()))?;
        let name = CString::new(absolute.as_os_str().as_bytes())
            .map_err(|_| refuse("its name holds a NUL"))?;
        // SAFETY: a NUL-terminated name. Loading runs the library's
        // constructors, which is what opening a driver means.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(refuse(&last_error()));
        }
        if !symbol(handle, OWN_SYMBOL).is_null() {
            return Err(OpenError::NotADriver {
                path: text,
                reason: "it is Ringfence itself",
            });
        }
        let mut addresses = [0; COUNT];
        for (address, name) in addresses.iter_mut().zip(FUNCTIONS) {
            if let Ok(name) = CString::new(name) {
                *address = symbol(handle, &name) as usize;
            }
        }
        unexported(&mut addresses);
        // SAFETY: each address is 0 or what the driver's library exports under
        // the name whose signature cuda.h declares; it is never closed.
        let api = unsafe { Api::from_addresses(addresses) };
        let Some(driver_version) = api.cuDriverGetVersion else {
            return Err(OpenError::NotADriver {
                path: text,
                reason: "it has no cuDriverGetVersion",
            });
        };
        let mut version = 0;
        // SAFETY: a valid place for the answer; the call needs no context.
        let result = unsafe { driver_version(&mut version) };
        if result != CUresult::CUDA_SUCCESS {
            return Err(OpenError::NotADriver {
                path: text,
                reason: "cuDriverGetVersion fails",
            });
        }
        let version = version.max(0).cast_unsigned();
        if version < OLDEST_DRIVER {
            return Err(OpenError::TooOld {
                path: text,
                major: version / 1000,
                minor: version % 1000 / 10,
            });
        }
        Ok(Library {
            path: absolute,
            api,
            version,
            handle,
        })
    }

    /// A symbol that cuda.h does not declare, such as those of cudaGL.h.
    pub fn symbol(&self, name: &CStr) -> *mut c_void {
        symbol(self.handle, name)
    }
}

/// Gets functions that the driver does not export from its own resolver. The
/// newest revision that is not newer than the requested one is the requested
/// one.
fn unexported(addresses: &mut [usize; COUNT]) {
    let resolver = addresses[index::cuGetProcAddress_v2];
    if resolver == 0 {
        return;
    }
    // SAFETY: what the driver exports under this name has this signature.
    let resolve =
        unsafe { std::mem::transmute::<usize, signatures::cuGetProcAddress_v2>(resolver) };
    for revision in REVISIONS {
        let wanted = [
            (Some(revision.function), 0),
            (revision.per_thread, PER_THREAD),
        ];
        let Ok(name) = CString::new(revision.name) else {
            continue;
        };
        for (position, flags) in wanted {
            let Some(position) = position.filter(|position| addresses[*position] == 0) else {
                continue;
            };
            let mut found = std::ptr::null_mut();
            let mut status = CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
            // SAFETY: a NUL-terminated name and places for both answers.
            let result = unsafe {
                resolve(
                    name.as_ptr(),
                    &mut found,
                    revision.since.cast_signed(),
                    flags,
                    &mut status,
                )
            };
            // Without a twin the resolver returns the ordinary function.
            let twin = flags == 0 || found as usize != addresses[revision.function];
            if result == CUresult::CUDA_SUCCESS && twin {
                addresses[position] = found as usize;
            }
        }
    }
}

const PER_THREAD: u64 =
    CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.0 as u64;

/// The first libcuda.so.1 on LD_LIBRARY_PATH or in the usual folders.
pub(super) fn find() -> Result<PathBuf, OpenError> {
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = listed
        .as_bytes()
        .split(|byte| *byte == b':')
        .filter(|folder| !folder.is_empty())
        .map(|folder| PathBuf::from(OsStr::from_bytes(folder)))
        .chain(FOLDERS.map(PathBuf::from))
        .collect();
    for folder in &folders {
        let candidate = folder.join("libcuda.so.1");
        if candidate.is_file() && !is_own(&candidate) {
            return Ok(candidate);
        }
    }
    let searched: Vec<String> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    Err(OpenError::NotFound {
        searched: searched.join(", "),
    })
}

/// Whether a file found under the driver's name is Ringfence's library, which
/// carries its own symbol's name in its string table.
fn is_own(path: &Path) -> bool {
    let name = OWN_SYMBOL.to_bytes();
    // The real library has about 100 MB; Ringfence's a tenth of that.
    let Ok(metadata) = path.metadata() else {
        return false;
    };
    if metadata.len() > 64 << 20 {
        return false;
    }
    std::fs::read(path).is_ok_and(|bytes| bytes.windows(name.len()).any(|window| window == name))
}

fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: an open handle and a NUL-terminated name.
    unsafe { libc::dlsym(handle, name.as_ptr()) }
}

fn last_error() -> String {
    // SAFETY: dlerror returns null or a string that lives until the next
    // dl call of this thread; it is copied at once.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "no reason given".into()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}
