//! GPU core dumps: what the driver writes when a kernel fails
//! (`cuCoredumpSetAttribute`), read back for the kernel, the thread, the
//! instruction, and the address that it accessed.
//!
//! A dump is an ELF file. Its tables are sections of types of their own
//! (`cudacoredump.h` of cuda-gdb), linked as a tree: a section's `sh_link` is the
//! section of its parents' table, and `sh_info` its parent's row there. Rows grow
//! from driver to driver; `sh_entsize` says how long they are, and only fields
//! that all drivers have are read.
//!
//! ```text
//! devices ─ SMs ─ blocks ─ warps ─ lanes ─ registers
//!         └ grids
//!         └ contexts ─ modules ─ their images, relocated
//! ```
//!
//! The driver does not write the address. It is computed from the instruction, or one
//! before it, and the registers, which later instructions may have changed: what uses it
//! must check whether it can be right.

mod code;
mod tables;

use tables::{Kind, Tables};

/// A thread that was at the instruction at which its warp was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Name of the function that holds the instruction; `None` if no image has it.
    pub function: Option<String>,
    /// `blockIdx`.
    pub block: [u32; 3],
    /// `threadIdx`.
    pub thread: [u32; 3],
    /// Address of the instruction.
    pub pc: u64,
    /// Its place in the function, in bytes, if that is known.
    pub offset: Option<u64>,
    /// The addresses that it and the instructions before it access by the registers of
    /// the thread, its own first; of known forms of loads, stores and atomics.
    pub addresses: Vec<u64>,
}

/// A core dump that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoreDumpError {
    /// It is no ELF file, or one that is cut off.
    #[error("a GPU core dump is not whole: {0}")]
    Malformed(String),
    /// A table's rows are shorter than what each driver writes.
    #[error("a GPU core dump has rows of {bytes} bytes in its table of {table}")]
    Short {
        /// The table.
        table: &'static str,
        /// Bytes of its rows.
        bytes: u64,
    },
}

/// Most faults that are read: thousands of threads may stand at one instruction.
const MOST: usize = 4096;

/// The threads that stand where their warps were stopped.
///
/// # Errors
///
/// The bytes are no whole core dump.
pub fn faults(dump: &[u8]) -> Result<Vec<Fault>, CoreDumpError> {
    let tables = Tables::read(dump)?;
    let images = code::Images::of(&tables);
    let mut faults = Vec::new();
    for blocks in tables.all(Kind::Blocks) {
        for (block_row, block) in blocks.rows("blocks", 20)?.enumerate() {
            for warps in tables.children(blocks, Kind::Warps, block_row) {
                for (warp_row, warp) in warps.rows("warps", 28)?.enumerate() {
                    let Some(stopped) = Stopped::of(warp) else {
                        continue;
                    };
                    for lanes in tables.children(warps, Kind::Lanes, warp_row) {
                        for (lane_row, lane) in lanes.rows("lanes", 32)?.enumerate() {
                            if !stopped.holds(u32_at(lane, 16)) || faults.len() >= MOST {
                                continue;
                            }
                            let mut registers = tables.children(lanes, Kind::Registers, lane_row);
                            let registers = registers.next().map_or(&[][..], |one| one.bytes);
                            let place = images.find(stopped.pc);
                            faults.push(Fault {
                                function: place.as_ref().map(|place| place.function.to_owned()),
                                block: [8, 12, 16].map(|at| u32_at(block, at)),
                                thread: [20, 24, 28].map(|at| u32_at(lane, at)),
                                pc: stopped.pc,
                                offset: place.as_ref().map(|place| place.offset),
                                addresses: place.map_or_else(Vec::new, |place| {
                                    let all = place.instructions.into_iter();
                                    all.filter_map(|one| code::accessed(one, registers))
                                        .collect()
                                }),
                            });
                        }
                    }
                }
            }
        }
    }
    Ok(faults)
}

/// A warp that was stopped by an error.
struct Stopped {
    pc: u64,
    active: u32,
}

impl Stopped {
    fn of(warp: &[u8]) -> Option<Stopped> {
        let is_valid = u32_at(warp, 24) != 0;
        is_valid.then(|| Stopped {
            pc: u64_at(warp, 0),
            active: u32_at(warp, 16),
        })
    }

    fn holds(&self, lane: u32) -> bool {
        1u32.checked_shl(lane)
            .is_some_and(|bit| self.active & bit != 0)
    }
}

/// A number of a row; 0 beyond its end, as of fields that it lacks.
fn u32_at(row: &[u8], at: usize) -> u32 {
    let bytes = row.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

/// As [`u32_at`].
fn u64_at(row: &[u8], at: usize) -> u64 {
    u64::from(u32_at(row, at)) | u64::from(u32_at(row, at + 4)) << 32
}

#[cfg(test)]
mod tests;
