//! Names to functions, for both versions of the runtime library.

use crate::generated::names::{EXPORTS_12, EXPORTS_13, NAMES, STUBS};
use crate::{api, twelve};

/// The runtime version against whose names and signatures a program was
/// compiled. CUDA 13 uses the plain names for what CUDA 12 calls `…_v2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// libcudart.so.12.
    Twelve,
    /// libcudart.so.13.
    Thirteen,
}

impl Version {
    /// Names that this version's library exports, sorted.
    pub fn exports(self) -> &'static [&'static str] {
        match self {
            Self::Twelve => &EXPORTS_12,
            Self::Thirteen => &EXPORTS_13,
        }
    }

    /// 12 or 13.
    pub fn number(self) -> u32 {
        match self {
            Self::Twelve => 12,
            Self::Thirteen => 13,
        }
    }
}

/// One implemented function.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    address: *const (),
}

// SAFETY: the address is that of a function, which all threads may call; it is
// never read or written through.
unsafe impl Sync for Entry {}

impl Entry {
    pub(crate) const fn new(name: &'static str, address: *const ()) -> Self {
        Self { name, address }
    }
}

const TABLES: &[&[Entry]] = &[
    api::array::TABLE,
    api::batch::TABLE,
    api::copy::TABLE,
    api::device::TABLE,
    api::device::OTHER,
    api::error::TABLE,
    api::event::TABLE,
    api::function::TABLE,
    api::graph::TABLE,
    api::graph_generic::TABLE,
    api::graph_nodes::TABLE,
    api::ipc::TABLE,
    api::launch::TABLE,
    api::launch::OTHER,
    api::library::TABLE,
    api::memory::TABLE,
    api::memset::TABLE,
    api::occupancy::TABLE,
    api::pool::TABLE,
    api::registration::TABLE,
    api::stream::TABLE,
    api::symbol::TABLE,
    api::texture::TABLE,
];

fn find(tables: &[&[Entry]], name: &str) -> Option<*const ()> {
    tables
        .iter()
        .flat_map(|table| table.iter())
        .find(|entry| entry.name == name)
        .map(|entry| entry.address)
}

/// The function of CUDA 13's runtime with this name, a failing one if it is
/// not implemented; `None` if the runtime has no such function.
pub fn lookup(name: &str) -> Option<*const ()> {
    lookup_version(Version::Thirteen, name)
}

/// [`lookup`] among the functions of one version.
pub fn lookup_version(version: Version, name: &str) -> Option<*const ()> {
    if version.exports().binary_search(&name).is_err() {
        return None;
    }
    implemented(version, name).or_else(|| {
        NAMES
            .binary_search(&name)
            .ok()
            .map(|index| STUBS[index] as *const ())
    })
}

/// The implementation, if there is one.
pub(crate) fn implemented(version: Version, name: &str) -> Option<*const ()> {
    match version {
        Version::Thirteen => find(TABLES, name),
        Version::Twelve => match twelve::renamed(name) {
            twelve::Renamed::Own => find(&[twelve::TABLE, twelve::OTHER], name),
            twelve::Renamed::As(thirteen) => find(TABLES, thirteen),
            twelve::Renamed::Absent => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_only_names_of_the_runtime_once() {
        let mut seen = std::collections::BTreeSet::new();
        for entry in TABLES.iter().flat_map(|table| table.iter()) {
            assert!(
                EXPORTS_13.binary_search(&entry.name).is_ok(),
                "{} is no runtime function",
                entry.name
            );
            assert!(seen.insert(entry.name), "{} is there twice", entry.name);
        }
    }

    #[test]
    fn every_export_has_a_function() {
        for version in [Version::Twelve, Version::Thirteen] {
            for name in version.exports() {
                assert!(lookup_version(version, name).is_some(), "{name}");
            }
            assert_eq!(lookup_version(version, "cudaNoSuchFunction"), None);
        }
        assert_eq!(lookup("cudaThreadSynchronize"), None);
    }

    #[test]
    fn versions_differ_where_signatures_do() {
        for name in [
            "cudaMemAdvise",
            "cudaPointerGetAttributes",
            "cudaGraphGetEdges",
        ] {
            assert_ne!(
                lookup_version(Version::Twelve, name),
                lookup(name),
                "{name}"
            );
        }
        let renamed = lookup_version(Version::Twelve, "cudaMemAdvise_v2");
        assert_eq!(renamed, lookup("cudaMemAdvise"));
        assert_eq!(
            lookup_version(Version::Twelve, "cudaMalloc"),
            lookup("cudaMalloc")
        );
    }

    #[test]
    fn a_missing_function_fails_with_not_supported() {
        use crate::generated::types::cudaError_t;
        let name = "cudaImportExternalMemory";
        assert!(implemented(Version::Thirteen, name).is_none());
        let stub = lookup(name).unwrap();
        // SAFETY: stubs take no arguments and give a cudaError_t.
        let stub: extern "C" fn() -> cudaError_t = unsafe { std::mem::transmute(stub) };
        assert_eq!(stub(), cudaError_t::cudaErrorNotSupported);
        assert_eq!(crate::error::take(), cudaError_t::cudaErrorNotSupported);
    }

    /// Whole themes that a CPU device cannot have or does not have yet.
    const MISSING: &[&str] = &[
        "__cudaGetProcAddress",
        "__cudaRegisterHostVar",
        "__cudaRegisterUnifiedTable",
        "cudaDeviceFlushGPUDirectRDMAWrites",
        "cudaDeviceGetNvSciSyncAttributes",
        "cudaGetExportTable",
    ];
    const MISSING_THEMES: &[&str] = &[
        "AsyncNotification",
        "EGL",
        "External",
        "GL",
        "Graphics",
        "Logs",
        "Mipmapped",
        "Surface",
        "Texture",
        "VDPAU",
    ];
    const MISSING_OF_ARRAYS: &[&str] = &["cudaArrayGet"];

    #[test]
    fn only_what_is_listed_is_missing() {
        let listed = |name: &str| {
            MISSING.contains(&name)
                || MISSING_THEMES.iter().any(|theme| name.contains(theme))
                || MISSING_OF_ARRAYS
                    .iter()
                    .any(|start| name.starts_with(start))
        };
        let missing = |name: &&&str| implemented(Version::Thirteen, name).is_none();
        let unlisted: Vec<_> = EXPORTS_13
            .iter()
            .filter(missing)
            .filter(|name| !listed(name))
            .collect();
        assert!(unlisted.is_empty(), "{unlisted:?}");
        for name in MISSING {
            assert!(
                implemented(Version::Thirteen, name).is_none(),
                "{name} is implemented, but listed as missing"
            );
        }
    }
}
