//! What was checked and what was not: the honest end of every report.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Declares an enumeration together with the list of its values, so that no
/// list elsewhere can lack one.
macro_rules! listed {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $( $(#[$value_attribute:meta])* $value:ident, )+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $( $(#[$value_attribute])* $value, )+
        }

        impl $name {
            /// How many values there are.
            pub const COUNT: usize = Self::ALL.len();

            /// All values, each at its [`index`](Self::index).
            pub const ALL: &[$name] = &[$( $name::$value, )+];

            /// The place of this value in [`ALL`](Self::ALL).
            pub const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

listed! {
/// Why a kernel, or part of it, ran without checks.
pub enum UncheckedReason {
    /// The program carries machine code only, no PTX that fits the device.
    NoPtx,
    /// Its PTX could not be parsed or instrumented.
    NotInstrumentable,
    /// The driver refused the instrumented module; the original runs.
    Rejected,
    /// The launch went through a call that is not hooked (a graph node, a
    /// launch from the device).
    LaunchPath,
    /// The block is too large for the registers of the checked build.
    Registers,
    /// It or its module calls the CUDA device runtime, which the driver does
    /// not link with PTX; the program's own code runs.
    DeviceRuntime,
    /// None of its accesses can be checked.
    NoCheckedSite,
    /// Excluded by an option.
    Excluded,
    /// Ringfence could not set itself up on the device.
    Failed,
    /// It had not ended when the program did, or failed on the device, so
    /// that nothing could be verified after it.
    Unfinished,
}
}

/// Launches of one kernel, by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelCoverage {
    /// Launches whose every access was proved in bounds beforehand.
    pub proved: u64,
    /// Launches that ran with checks.
    pub checked: u64,
    /// Launches of the checked ones in which only those accesses carried checks
    /// that were not proved in bounds beforehand.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub residual: u64,
    /// Launches that ran without, by reason.
    pub unchecked: BTreeMap<UncheckedReason, u64>,
    /// Access sites that carry a check against exact bounds.
    pub exact_sites: u32,
    /// Access sites whose provenance is unknown (see `Provenance::Unknown`).
    pub weak_sites: u32,
    /// Access sites that carry no check, by opcode (spaces and instructions
    /// that no active protection covers).
    pub unchecked_sites: BTreeMap<String, u32>,
    /// Calls through pointers without the bounds of their arguments, because
    /// the callees are unknown: the callee looks its pointers up.
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub calls_without_bounds: u32,
    /// Launches of the unchecked ones after which canaries were verified, or that
    /// ran while buffers lay at unmapped pages.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub verified: u64,
}

/// Canaries around the buffers of a CUDA program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CanaryCoverage {
    /// Buffers that had canaries.
    pub buffers: u64,
    /// Bytes of memory that canaries took.
    pub bytes: u64,
    /// Buffers whose canaries are smaller than asked for, because memory ran
    /// out.
    pub smaller: u64,
    /// Buffers without canaries, by reason.
    pub bare: BTreeMap<BareReason, u64>,
    /// Times that a kernel verified canaries.
    pub checks: u64,
    /// Nanoseconds that these kernels took.
    pub nanoseconds: u64,
    /// Most launches between a write and the end of the check that would show
    /// it, the writing one counted.
    pub latency_launches: u64,
    /// Most microseconds from a launch to the launch of the check after it.
    pub latency_microseconds: u64,
}

/// Shadow memory of a CUDA program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShadowCoverage {
    /// Buffers that had redzones.
    pub buffers: u64,
    /// Their bytes.
    pub memory: u64,
    /// Bytes of memory that redzones took.
    pub bytes: u64,
    /// Bytes of shadow memory.
    pub shadow: u64,
    /// Buffers that are not covered, by reason.
    pub bare: BTreeMap<BareReason, u64>,
}

/// Why a buffer of a CUDA program has no canaries, or no redzones and no shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BareReason {
    /// No memory was left for them.
    OutOfMemory,
    /// Page-locked memory of the host.
    Host,
    /// Memory that the program maps itself, or has from another interface or
    /// process.
    Foreign,
    /// Allocated by a graph.
    Graph,
    /// Made before canaries were, or after Ringfence failed to make them.
    Unprotected,
    /// Allocated in stream order, which shadow memory does not follow.
    InStreamOrder,
    /// Too far from other buffers to have shadow memory.
    FarAway,
}

/// Buffers that end at unmapped pages (`--protect pages`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PagesCoverage {
    /// Buffers that had pages of their own.
    pub exact: u64,
    /// Buffers that shared pages with others, at addresses of their own.
    pub shared: u64,
    /// Most bytes of placed buffers at a time.
    pub bytes: u64,
    /// Most bytes of device memory that were mapped for them at a time.
    pub memory: u64,
    /// Buffers that got addresses which others had had before.
    pub reused: u64,
    /// Buffers elsewhere, by reason.
    pub elsewhere: BTreeMap<ElsewhereReason, u64>,
    /// The seed of the sample of buffers that had pages of their own; 0: there
    /// was no sample.
    pub seed: u64,
}

/// Why a buffer of a CUDA program does not lie at unmapped pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ElsewhereReason {
    /// No memory was left for it there.
    OutOfMemory,
    /// Managed memory, which the driver maps by itself.
    Managed,
    /// From a pool that the program made.
    Pool,
    /// Mapped by the program, or from another interface or process.
    Foreign,
    /// Allocated while a stream was captured, perhaps by a graph.
    Captured,
    /// The driver does not map memory there.
    Refused,
    /// It lies there, and could not be exported to another process.
    NotExported,
}

fn is_zero_u32(count: &u32) -> bool {
    *count == 0
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A count in a summary, beside kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Note {
    /// Launches whose canaries the host verified.
    CanariesByHost,
    /// Launches whose canaries a kernel of Ringfence's verified.
    CanariesByDevice,
    /// Contexts in which no kernel could be built that verifies canaries.
    NoDeviceChecker,
    /// Buffers whose canaries are smaller than asked for, because the device
    /// had no room.
    SmallerCanaries,
    /// Launches of kernels that fill the device, which were looked at when they
    /// had ended, not while they ran.
    NotWatched,
    /// Allocations that the program could not free any more, because a kernel
    /// had failed in their context.
    HeldByFailure,
    /// Threads that Ringfence ended, because they went round loops without end after
    /// they had failed a check.
    ThreadsEnded,
}

/// Coverage of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// By mangled kernel name.
    pub kernels: BTreeMap<String, KernelCoverage>,
    /// Records that the ring could not hold.
    pub dropped_records: u64,
    /// Copies, memsets and frees by the host that were checked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u64,
    /// Further counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<Note, u64>,
    /// Canaries; `None`: there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canaries: Option<CanaryCoverage>,
    /// Shadow memory; `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowCoverage>,
    /// Buffers at unmapped pages; `None`: there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<PagesCoverage>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_the_place_in_the_list() {
        for (place, reason) in UncheckedReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), place);
        }
    }
}
