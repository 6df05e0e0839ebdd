//! How much of a device's memory is handed out, in units.

use protocol::Control;
use std::path::PathBuf;

/// Of sixteen parts of a device's memory, those that are handed out. The rest is
/// for code and for what the manager has beside a tenant's memory: some 70 MiB a
/// tenant, 64 tenants at most (`crates/manager/src/partition.rs`).
const HANDED_OUT: u64 = 15;

/// What is said of a manager whose device has failed.
pub(crate) const LOST: &str = "the manager's device has failed; restart the manager";

/// What a node has to hand out.
#[derive(Clone, Debug)]
pub(crate) struct Stock {
    /// The manager's folder of slices.
    pub(crate) slices: PathBuf,
    /// Bytes of a unit.
    pub(crate) unit: u64,
    /// Bytes that are handed out; `None`: fifteen sixteenths of the device's.
    pub(crate) memory: Option<u64>,
    /// Units at most.
    pub(crate) most: usize,
}

impl Stock {
    /// For how many units the manager has memory; else why there is none.
    pub(crate) fn units(&self) -> Result<usize, String> {
        let control = Control::connect(&self.slices);
        let state = control.and_then(|mut control| control.state());
        let state = state.map_err(|error| error.to_string())?;
        if state.is_lost {
            return Err(LOST.to_owned());
        }
        let memory = self.memory.unwrap_or(state.memory / 16 * HANDED_OUT);
        match usize::try_from(memory / self.unit).unwrap_or(usize::MAX) {
            0 => Err(format!(
                "the device has less memory than a unit of {} bytes; choose a smaller --unit",
                self.unit
            )),
            units if units <= self.most => Ok(units),
            _ => Err(format!(
                "{memory} bytes are more than {} units of {} bytes; choose a larger --unit",
                self.most, self.unit
            )),
        }
    }
}
