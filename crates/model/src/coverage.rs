//! What was checked and what was not: the honest end of every report.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why a kernel, or part of it, ran without checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// Excluded by an option.
    Excluded,
    /// Ringfence could not set itself up on the device.
    Failed,
    /// It had not ended when the program did, or failed on the device, so
    /// that nothing could be verified after it.
    Unfinished,
}

/// Launches of one kernel, by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelCoverage {
    /// Launches whose every access was proved in bounds beforehand.
    pub proved: u64,
    /// Launches that ran with checks.
    pub checked: u64,
    /// Launches that ran without, by reason.
    pub unchecked: BTreeMap<UncheckedReason, u64>,
    /// Access sites that carry a check against exact bounds.
    pub exact_sites: u32,
    /// Access sites whose provenance is unknown (see `Provenance::Unknown`).
    pub weak_sites: u32,
    /// Access sites that carry no check, by opcode (spaces and instructions
    /// that no active protection covers).
    pub unchecked_sites: BTreeMap<String, u32>,
}

/// Something that a summary says with a number, beside kernels.
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
}

/// Coverage of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// By mangled kernel name.
    pub kernels: BTreeMap<String, KernelCoverage>,
    /// Records that the ring could not hold.
    pub dropped_records: u64,
    /// What else is to be said.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<Note, u64>,
}
