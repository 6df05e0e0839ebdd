//! The options of instrumentation, and its output.

use crate::parameters::ParameterSlot;
use analysis::{Lost, Program, Query};
use model::layout::LaunchRange;
use model::layout::shadow::Encoding;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The options: what is instrumented.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which accesses are checked against their bounds; the others stay as they are.
    pub checked: model::Checked,
    /// A thread that fails a check leaves its record and traps there, before
    /// the access.
    pub trap: bool,
    /// Accesses in loops are checked in each pass, and not before the loops.
    pub in_place: bool,
    /// Accesses to global memory are checked against shadow memory in place of
    /// bounds, unless they are of objects whose bounds the text has.
    pub shadow: Option<Encoding>,
}

/// An instrumented module.
#[derive(Clone, Debug)]
pub struct Instrumented {
    /// The PTX.
    pub text: String,
    /// Names the module in device records: a hash of the source, never zero.
    pub tag: u64,
    /// All access sites; `sites[i].id` is `i + 1`.
    pub sites: Vec<model::AccessSite>,
    /// The sites that are checked by their address alone, and why their roots
    /// are not known.
    pub lost: Vec<(model::SiteId, Lost)>,
    /// One plan for each `.entry` with a body, in text order.
    pub entries: Vec<EntryPlan>,
    /// Variables in global memory that the module defines. The host must find
    /// their addresses when the module is loaded (the driver finds those
    /// without linkage by name, too) and register them. Pointers that appear on
    /// the device are looked up by address: without registration, a pointer to
    /// a variable would be invalid.
    pub variables: Vec<DeviceVariable>,
    /// Code of the module, original kernels included, allocates on the device
    /// heap, which must be there before any of it runs.
    pub uses_device_heap: bool,
    /// Code with checks calls itself, or through pointers. The driver cannot
    /// compute how much stack a thread needs, and uses the context's limit
    /// (`CU_LIMIT_STACK_SIZE`), which the program chose for frames without
    /// checks.
    pub stack_is_unknown: bool,
    /// A function of the CUDA device runtime that the module calls and does not
    /// define. The driver compiles such PTX, but does not link it with the
    /// library (libcudadevrt) that defines the function.
    pub device_runtime: Option<String>,
    /// See [`Options::shadow`].
    pub shadow: Option<Encoding>,
}

/// A variable of a module, in global memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceVariable {
    /// Name, as in the PTX.
    pub name: String,
    /// Bytes.
    pub size: u64,
}

/// The data that the host needs to launch a kernel with checks.
#[derive(Clone, Debug)]
pub struct EntryPlan {
    /// Mangled name.
    pub name: String,
    /// Name of the checked copy; `None` if nothing can be checked in the kernel
    /// itself and in the functions that it calls by name. (Others that it calls
    /// are checked all the same.)
    pub checked_name: Option<String>,
    /// The program's own parameters.
    pub parameters: Vec<ParameterSlot>,
    /// Bytes of the program's own parameter block.
    pub parameter_bytes: u32,
    /// Place of [`model::layout::LAUNCH_PARAMETER`] in the parameter block of
    /// the checked copy; `None` in lookup mode or if there is no copy.
    pub launch_parameter: Option<ParameterSlot>,
    /// The launch parameter ends with the window of shadow memory.
    pub takes_window: bool,
    /// Byte offsets, in the parameter block, of the pointers whose bounds the
    /// launch parameter carries, in its order.
    pub roots: Vec<u32>,
    /// The limits that the launch parameter carries behind those bounds, in its
    /// order.
    pub limits: Vec<LaunchLimit>,
    /// What it carries behind those for accesses by index, in its order.
    pub indices: Vec<LaunchIndex>,
    /// Number of access sites by kind of check, in the kernel and in the
    /// functions that it calls directly.
    pub coverage: model::KernelCoverage,
    /// The kernel may call the driver's own device-side `malloc`, because calls
    /// in the module could not be redirected. Its blocks are unknown to
    /// Ringfence.
    pub uses_device_malloc: bool,
    /// The program that decides, at a launch, whether all its accesses are in
    /// bounds; or the reason why there is none.
    pub proof: Result<Program, Obstacle>,
    /// The kernel's second copy, if it has one: for launches of which the whole cannot be
    /// proved.
    pub residual: Option<Residual>,
}

impl EntryPlan {
    /// The program that a launch is decided by: of all accesses, so that the
    /// original runs, or of those that have no checks in the residual copy.
    pub fn program(&self) -> Option<&Program> {
        let residual = self.residual.as_ref().map(|residual| &residual.proof);
        self.proof.as_ref().ok().or(residual)
    }
}

/// A limit that checks of a kernel compare with, and that is the same for all threads
/// of a launch: an access is in bounds exactly if its first byte is fewer bytes than this
/// behind the base of its allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchLimit {
    /// The pointer whose allocation it is of, as an index of [`EntryPlan::roots`].
    pub root: u32,
    /// Bytes of the access, less one.
    pub less: u64,
    /// A power of two. No access is in bounds unless the pointer plus `residue` is a
    /// multiple of it.
    pub alignment: u64,
    /// What is added to the pointer before its alignment is tested.
    pub residue: u64,
}

impl LaunchLimit {
    /// Its value for a pointer, and the size of the allocation that it points into (0
    /// if it points into none).
    pub fn value(&self, pointer: u64, size: u64) -> u64 {
        let rest = pointer.wrapping_add(self.residue) & self.alignment.wrapping_sub(1);
        match rest {
            0 => size.saturating_sub(self.less),
            _ => 0,
        }
    }
}

/// Accesses by index of a kernel, of which the indices are the same for all threads of a
/// launch that are in bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchIndex {
    /// The pointer that is indexed, as an index of [`EntryPlan::roots`].
    pub root: u32,
    /// Bytes from one index to the next: not 0.
    pub scale: u64,
    /// Whether the index is a signed number of 32 bits, else an unsigned one.
    pub is_signed: bool,
    /// Bytes from the pointer to the first byte of the access at index 0.
    pub first: i64,
    /// Bytes of the access, less one.
    pub less: u64,
    /// See [`LaunchLimit::alignment`].
    pub alignment: u64,
    /// See [`LaunchLimit::residue`].
    pub residue: u64,
}

impl LaunchIndex {
    /// Where no index is in bounds, there is one that passes all the same, as a range is
    /// never empty: this, which no program uses, and at which nothing is mapped.
    pub const NONE: LaunchRange = LaunchRange {
        from: 0xa5c3_71e9,
        span: 0,
    };

    /// The indices that are in bounds for a pointer, whose allocation has this base and
    /// size (0 if it points into none).
    pub fn range(&self, pointer: u64, (base, size): (u64, u64)) -> LaunchRange {
        let limit = LaunchLimit {
            root: self.root,
            less: self.less,
            alignment: self.alignment,
            residue: self.residue,
        };
        let room = i128::from(limit.value(pointer, size));
        let scale = i128::from(self.scale.max(1));
        let first = i128::from(pointer) + i128::from(self.first) - i128::from(base);
        // (Rounded up.)
        let index_at = |offset: i128| -(first - offset).div_euclid(scale);
        let (least, end) = match self.is_signed {
            true => (i128::from(i32::MIN), i128::from(i32::MAX) + 1),
            false => (0, i128::from(u32::MAX) + 1),
        };
        let (from, to) = (index_at(0).max(least), index_at(room).min(end));
        match u32::try_from(to - from - 1) {
            Ok(span) if to > from => LaunchRange {
                from: from as u32,
                span,
            },
            _ => LaunchIndex::NONE,
        }
    }
}

/// A copy of a kernel in which the accesses have no checks that can be proved
/// before a launch. It is otherwise as the checked copy: it takes the same
/// parameters, and its sites have the same numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Residual {
    /// Its name.
    pub name: String,
    /// Decides, at a launch, whether the accesses without checks are in bounds.
    pub proof: Program,
    /// What the program decides.
    pub queries: Vec<Query>,
    /// The sites without checks that lead their groups, in order: other members
    /// of a group have the same verdict.
    pub elided: Vec<model::SiteId>,
}

impl Residual {
    /// Whether the accesses of a group have no checks; `group` is the site that
    /// leads it ([`model::AccessSite::group`]).
    pub fn elides(&self, group: model::SiteId) -> bool {
        self.elided.binary_search(&group).is_ok()
    }
}

/// Why no launch of a kernel can be proved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    /// The obstacle.
    pub reason: Reason,
    /// The line of the PTX it is on, from 1, where it has one.
    pub line: Option<u32>,
}

/// The obstacle to a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// Nothing: there is no check to make.
    NoChecks,
    /// The address depends on a value loaded from memory, or on arithmetic that
    /// the analysis does not follow.
    Address,
    /// The buffer is known to the device only.
    Buffer,
    /// The number of bytes is known to the device only.
    Extent,
    /// An access that cannot be checked either.
    Unchecked,
    /// A function is called that has checks of its own, or is not known.
    Call,
    /// The launch parameter does not fit, so that the host does not look up the
    /// buffers.
    Parameters,
    /// The arithmetic is too long.
    Size,
}

impl Reason {
    /// Text for people; continues a sentence after "because".
    pub fn text(self) -> &'static str {
        match self {
            Reason::NoChecks => "it has no checks",
            Reason::Address => "an address depends on data, or on arithmetic that is not followed",
            Reason::Buffer => "a pointer is found on the device only",
            Reason::Extent => "the size of an access is known on the device only",
            Reason::Unchecked => "an access cannot be checked",
            Reason::Call => "it calls functions that have checks of their own",
            Reason::Parameters => "its parameters leave no room for bounds",
            Reason::Size => "its arithmetic is too long",
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{} (PTX line {line})", self.reason.text()),
            None => f.write_str(self.reason.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn holds(range: LaunchRange, index: u32) -> bool {
        index.wrapping_sub(range.from) <= range.span
    }

    fn is_inside(of: &LaunchIndex, pointer: u64, (base, size): (u64, u64), index: u32) -> bool {
        let index = match of.is_signed {
            true => i128::from(index as i32),
            false => i128::from(index),
        };
        let first = i128::from(pointer) + i128::from(of.first) + index * i128::from(of.scale);
        let rest = pointer.wrapping_add(of.residue) % of.alignment;
        rest == 0
            && first >= i128::from(base)
            && first + i128::from(of.less) < i128::from(base) + i128::from(size)
    }

    proptest! {
        #[test]
        fn an_index_is_in_the_range_where_its_bytes_are_in_bounds(
            scale in prop_oneof![1u64..9, 1u64..70_000],
            is_signed in any::<bool>(),
            first in -64i64..64,
            less in 0u64..16,
            alignment in prop_oneof![Just(1u64), Just(4)],
            base in (0x1000u64..0x1100).prop_map(|base| base << 28),
            size in prop_oneof![0u64..40, 0u64..5000, (0u64..40).prop_map(|bits| 1 << bits)],
            inside in -20i64..5000,
            near in -40i64..40,
            any_index in any::<u32>(),
        ) {
            let of = LaunchIndex { root: 0, scale, is_signed, first, less, alignment, residue: 0 };
            let pointer = base.wrapping_add_signed(inside);
            let bounds = (base, size);
            let range = of.range(pointer, bounds);
            // At both ends of the buffer, at those of the range, and anywhere.
            let at = |offset: i128| {
                let own = i128::from(pointer) + i128::from(first) - i128::from(base);
                (offset - own).div_euclid(i128::from(scale)) as u32
            };
            let ends = [at(0), at(i128::from(size)), range.from, range.from.wrapping_add(range.span), 0, 1 << 31];
            for end in ends {
                let index = end.wrapping_add(near as u32);
                if range != LaunchIndex::NONE || !holds(range, index) {
                    prop_assert_eq!(holds(range, index), is_inside(&of, pointer, bounds, index), "{}", index);
                }
            }
            if range != LaunchIndex::NONE {
                prop_assert_eq!(holds(range, any_index), is_inside(&of, pointer, bounds, any_index));
            }
        }
    }

    #[test]
    fn all_indices_may_be_in_bounds_and_none_may_be() {
        let of = LaunchIndex {
            root: 0,
            scale: 1,
            is_signed: false,
            first: 0,
            less: 0,
            alignment: 1,
            residue: 0,
        };
        let all = of.range(1 << 40, (1 << 40, 1 << 33));
        assert_eq!((all.from, all.span), (0, u32::MAX));
        let nothing = [
            of.range(0, (0, 0)),
            of.range(64, (64, 0)),
            of.range(1 << 40, (64, 64)),
        ];
        assert_eq!(nothing, [LaunchIndex::NONE; 3]);
        let misaligned = LaunchIndex { alignment: 4, ..of };
        assert_eq!(misaligned.range(66, (64, 64)), LaunchIndex::NONE);
    }
}
