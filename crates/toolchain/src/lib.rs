//! Where the pinned CUDA compiler lies, for the tests of all crates, the suite
//! and `xtask`. Nothing that a user runs depends on this crate.

use std::path::{Path, PathBuf};

/// The Python environment that `cargo xtask setup` installs the CUDA compiler
/// in, from the workspace's folder.
pub const FOLDER: &str = "target/toolchain/cuda";

/// Environment variable that names another folder: one with `bin` and
/// `include`, or a Python environment.
pub const VARIABLE: &str = "RINGFENCE_TOOLCHAIN";

/// The workspace's folder.
pub fn workspace() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own)
}

/// A CUDA compiler: a folder with `bin/nvcc`, `include` and `lib`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuda {
    root: PathBuf,
}

/// There is no CUDA compiler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no CUDA compiler in {}; `cargo xtask setup` installs it", .folder.display())]
pub struct Missing {
    /// Where it should be.
    pub folder: PathBuf,
}

impl Cuda {
    /// The compiler in a folder: the folder with `bin` itself, or a Python
    /// environment that NVIDIA's packages are installed in.
    ///
    /// # Errors
    ///
    /// There is no nvcc.
    pub fn find(folder: &Path) -> Result<Cuda, Missing> {
        let entries = std::fs::read_dir(folder.join("lib"));
        let mut pythons: Vec<PathBuf> = entries
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path().join("site-packages/nvidia/cu13")))
            .collect();
        pythons.sort();
        let mut candidates = std::iter::once(folder.to_owned()).chain(pythons);
        candidates
            .find(|root| root.join("bin/nvcc").is_file())
            .map(|root| Cuda { root })
            .ok_or_else(|| Missing {
                folder: folder.to_owned(),
            })
    }

    /// The compiler that `cargo xtask setup` installs, or the one that
    /// [`VARIABLE`] names.
    ///
    /// # Errors
    ///
    /// It is not there.
    pub fn pinned() -> Result<Cuda, Missing> {
        match std::env::var_os(VARIABLE) {
            Some(folder) => Cuda::find(Path::new(&folder)),
            None => Cuda::find(&workspace().join(FOLDER)),
        }
    }

    /// One of its programs, such as `ptxas`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.root.join("bin").join(name)
    }

    /// The compiler driver.
    pub fn nvcc(&self) -> PathBuf {
        self.program("nvcc")
    }

    /// Folder of the CUDA runtime's libraries.
    pub fn libraries(&self) -> PathBuf {
        self.root.join("lib")
    }

    /// Folder of the headers.
    pub fn include(&self) -> PathBuf {
        self.root.join("include")
    }
}

/// The pinned compiler, for tests.
///
/// # Panics
///
/// It is not there; the message says how to install it.
pub fn cuda() -> Cuda {
    Cuda::pinned().unwrap_or_else(|missing| panic!("{missing}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_where_its_lock_file_is() {
        assert!(workspace().join("Cargo.lock").is_file());
    }

    #[test]
    fn a_compiler_is_found_in_its_folder_and_in_a_python_environment() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Cuda::find(folder.path()).unwrap_err();
        assert!(missing.to_string().contains("cargo xtask setup"));
        let within = folder
            .path()
            .join("lib/python3.11/site-packages/nvidia/cu13");
        std::fs::create_dir_all(folder.path().join("lib/python3.10")).unwrap();
        std::fs::create_dir_all(within.join("bin")).unwrap();
        assert!(Cuda::find(folder.path()).is_err());
        std::fs::write(within.join("bin/nvcc"), "").unwrap();
        let found = Cuda::find(folder.path()).unwrap();
        assert_eq!(found.nvcc(), within.join("bin/nvcc"));
        assert_eq!(Cuda::find(&within), Ok(found));
    }
}
