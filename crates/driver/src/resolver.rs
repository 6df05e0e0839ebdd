//! The results of cuGetProcAddress, from the table of revisions in
//! cudaTypedefs.h: for devices that have no resolver of their own, and to find
//! which variant a real driver chose.

pub use crate::generated::resolver::{REVISIONS, Revision};

/// The answer to one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The function at this position of [`crate::FUNCTIONS`].
    Function(usize),
    /// The name exists, but only from a later version on than was asked for.
    VersionTooOld,
    /// No such name.
    NotFound,
}

/// The newest revision of `name` that was introduced at or before `version`
/// (as in 12030). With `per_thread`, its variant for the per-thread default
/// stream if there is one, else the ordinary one.
pub fn resolve(name: &str, version: u32, per_thread: bool) -> Resolution {
    let start = REVISIONS.partition_point(|revision| revision.name < name);
    let all = REVISIONS[start..]
        .iter()
        .take_while(|revision| revision.name == name);
    let mut found = false;
    let mut best = None;
    for revision in all {
        found = true;
        if revision.since <= version {
            best = Some(revision);
        }
    }
    match best {
        Some(revision) => Resolution::Function(
            revision
                .per_thread
                .filter(|_| per_thread)
                .unwrap_or(revision.function),
        ),
        None if found => Resolution::VersionTooOld,
        None => Resolution::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index;

    #[test]
    fn sorted_by_name_then_version() {
        for pair in REVISIONS.windows(2) {
            assert!(
                (pair[0].name, pair[0].since) < (pair[1].name, pair[1].since),
                "{pair:?}"
            );
        }
    }

    #[test]
    fn newest_at_or_before() {
        use Resolution::*;
        assert_eq!(
            resolve("cuMemAlloc", 2000, false),
            Function(index::cuMemAlloc)
        );
        assert_eq!(
            resolve("cuMemAlloc", 3019, false),
            Function(index::cuMemAlloc)
        );
        assert_eq!(
            resolve("cuMemAlloc", 3020, false),
            Function(index::cuMemAlloc_v2)
        );
        assert_eq!(
            resolve("cuCtxGetDevice", 12090, false),
            Function(index::cuCtxGetDevice)
        );
        assert_eq!(
            resolve("cuCtxGetDevice", 13000, false),
            Function(index::cuCtxGetDevice_v2)
        );
        assert_eq!(
            resolve("cuStreamGetCaptureInfo", 12000, true),
            Function(index::cuStreamGetCaptureInfo_v2_ptsz)
        );
        assert_eq!(
            resolve("cuMemcpyHtoD", 7000, true),
            Function(index::cuMemcpyHtoD_v2_ptds)
        );
        assert_eq!(
            resolve("cuMemcpyHtoD", 7000, false),
            Function(index::cuMemcpyHtoD_v2)
        );
        assert_eq!(resolve("cuInit", 13000, true), Function(index::cuInit));
        assert_eq!(resolve("cuLibraryLoadData", 11080, false), VersionTooOld);
        assert_eq!(resolve("cuNothing", 13000, false), NotFound);
        assert_eq!(resolve("", 13000, false), NotFound);
    }
}
