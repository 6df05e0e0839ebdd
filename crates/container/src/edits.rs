//! Mounts and environment variables.

use protocol::SLICE_SOCKET;
use std::path::{Path, PathBuf};

/// Where a container sees the folder of Ringfence's libraries.
pub const LIBRARIES: &str = "/opt/ringfence/lib";

/// Where a container sees the folder of its slice.
pub const RUN: &str = "/run/ringfence";

/// The library.
const LIBRARY: &str = "libringfence.so";

/// The folder beside it of the libraries that take the place of NVIDIA's shared
/// runtime.
const RUNTIMES: &str = "cudart";

/// The variable of Ringfence's options.
const OPTIONS: &str = "RINGFENCE_OPTIONS";

/// A folder of the host that a container sees, and cannot write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its path on the host.
    pub host: PathBuf,
    /// Its path in the container.
    pub container: PathBuf,
}

/// What a container needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edits {
    /// Folders.
    pub mounts: Vec<Mount>,
    /// Environment variables.
    pub environment: Vec<(&'static str, String)>,
}

/// A process cannot be made a tenant by its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditsError {
    /// A file is not there.
    Missing(PathBuf),
    /// A path that the variables cannot hold.
    Path(PathBuf),
}

impl std::error::Error for EditsError {}

impl std::fmt::Display for EditsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EditsError::Missing(path) => write!(
                f,
                "there is no {}; `cargo xtask install --root FOLDER` installs it in FOLDER/lib, which --libraries names",
                path.display()
            ),
            EditsError::Path(path) => write!(
                f,
                "{} cannot be named in LD_PRELOAD or RINGFENCE_OPTIONS: it has a colon, a space, a quote or a backslash, or is no UTF-8; choose another path",
                path.display()
            ),
        }
    }
}

/// Ringfence's libraries, as this process sees them, and as the tenant does.
#[derive(Clone, Copy, Debug)]
pub struct Libraries<'p> {
    /// The folder, where this process can list it.
    pub here: &'p Path,
    /// The same folder, for the tenant's loader.
    pub there: &'p Path,
}

impl Edits {
    /// What a container needs to be a tenant of the slice whose folder (see
    /// [`protocol::SliceState::folder`]) is `folder`. Ringfence's libraries lie in
    /// `libraries`, and this process sees them in `here`.
    ///
    /// # Errors
    ///
    /// They are not there.
    pub fn new(folder: &Path, libraries: &Path, here: &Path) -> Result<Edits, EditsError> {
        let there = Path::new(LIBRARIES);
        Ok(Edits {
            environment: environment(Path::new(RUN), Libraries { here, there })?,
            mounts: vec![
                Mount {
                    host: folder.to_owned(),
                    container: RUN.into(),
                },
                Mount {
                    host: libraries.to_owned(),
                    container: LIBRARIES.into(),
                },
            ],
        })
    }

    /// Adds an option to `RINGFENCE_OPTIONS`. Its value has no colon.
    pub fn set_option(&mut self, name: &str, value: &str) {
        for (variable, options) in &mut self.environment {
            if *variable == OPTIONS {
                options.push_str(&format!(":{name}={value}"));
            }
        }
    }
}

/// The environment by which a process becomes a tenant of the slice whose socket
/// lies in `run`.
///
/// # Errors
///
/// A library is missing, or a path cannot be written in the variables.
pub fn environment(
    run: &Path,
    libraries: Libraries<'_>,
) -> Result<Vec<(&'static str, String)>, EditsError> {
    let Libraries { here, there } = libraries;
    let library = here.join(LIBRARY);
    if !library.is_file() {
        return Err(EditsError::Missing(library));
    }
    // Preloaded rather than searched for: a container's own LD_LIBRARY_PATH
    // stays as it is. A program that needs none of them is not affected: they
    // only pass calls on.
    let runtimes = here.join(RUNTIMES);
    let entries = std::fs::read_dir(&runtimes);
    let entries = entries.map_err(|_| EditsError::Missing(runtimes))?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    let runtimes = names.iter().map(|name| there.join(RUNTIMES).join(name));
    let preloaded = std::iter::once(there.join(LIBRARY)).chain(runtimes);
    let preloaded = preloaded.map(plain).collect::<Result<Vec<_>, _>>()?;
    let socket = plain(run.join(SLICE_SOCKET))?;
    Ok(vec![
        ("LD_PRELOAD", preloaded.join(":")),
        (OPTIONS, format!("device=tenant:check=off:socket={socket}")),
    ])
}

/// The path as text, if it needs no quotes in a shell or in a list.
fn plain(path: PathBuf) -> Result<String, EditsError> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || ":'\"\\$`;&|<>()*?#~".contains(c);
    match path.to_str().filter(|text| !text.contains(odd)) {
        Some(text) => Ok(text.to_owned()),
        None => Err(EditsError::Path(path)),
    }
}
