//! How a check ensures that its address is aligned.
//!
//! Most addresses are a pointer of the parameters plus a multiple of the
//! access's size. Such an address is aligned exactly if the pointer is; the top
//! of the body tests the pointer once. If the pointer is not aligned, the limit
//! that the offset is compared with is zero. One comparison thus checks bounds
//! and alignment. If the alignment of an address cannot be derived from the
//! text, its low bits are tested.

use super::plan::{Group, Plan, Source};
use super::text::*;
use crate::patch::line;
use analysis::{Analysis, RootId};

/// How the members of a group are known to be aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Aligned {
    /// The way the address is computed.
    Known,
    /// The limit, which depends on a pointer of the parameters.
    ByLimit(Pointer),
    /// A test of the address.
    Tested,
}

/// The pointer at `parameter`, plus `residue`, is a multiple of `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pointer {
    pub(super) parameter: u32,
    pub(super) residue: u64,
    pub(super) bytes: u64,
}

impl Plan {
    /// Decides for each group how alignment is ensured.
    pub(super) fn settle_alignment(&mut self, analysis: &Analysis<'_, '_>) {
        for access in self.accesses.iter().filter(|access| access.leads) {
            let group = &mut self.groups[access.group as usize];
            let (bytes, at) = group.needs;
            // Shadow memory has nothing to do with alignment: the device faults.
            if bytes == 1 || group.source == Source::Byte {
                continue;
            }
            let base = analysis.low_bits(access.instruction, access.operand);
            let residue = base
                .modulo(bytes)
                .map(|rest| rest.wrapping_add(at as u64) & (bytes - 1));
            let has_limit = group.window.is_none()
                && !group.in_doubt
                && group.extent.is_constant()
                && matches!(group.source, Source::Root(root) if !has_constant_size(analysis, root));
            group.aligned = match (base.parameter, residue) {
                (None, Some(0)) => Aligned::Known,
                (Some(parameter), Some(residue)) if has_limit => Aligned::ByLimit(Pointer {
                    parameter,
                    residue,
                    bytes,
                }),
                _ => Aligned::Tested,
            };
        }
    }
}

/// Whether the size of a root is fixed in the module's text.
fn has_constant_size(analysis: &Analysis<'_, '_>, root: RootId) -> bool {
    super::emit::constant_size(analysis, root).is_some()
}

/// An address that is tested.
#[derive(Clone, Copy)]
pub(super) enum Address<'a> {
    /// A register of 64 bits.
    Wide(Op<'a>),
    /// A register of 32 bits.
    Narrow(Op<'a>),
}

/// `outside` also where the address is not aligned, if that must be tested.
pub(super) fn or_misaligned(
    group: &Group,
    address: Address<'_>,
    outside: Op<'_>,
    out: &mut String,
) {
    if group.aligned != Aligned::Tested {
        return;
    }
    let (bytes, at) = group.needs;
    let at = (at as u64) & (bytes - 1);
    let mut low = match address {
        Address::Wide(register) => {
            line!(out, "cvt.u32.u64 {LOW_BITS}, {register};");
            LOW_BITS
        }
        Address::Narrow(register) => register,
    };
    if at != 0 {
        line!(out, "add.s32 {LOW_BITS}, {low}, {at};");
        low = LOW_BITS;
    }
    line!(out, "and.b32 {LOW_BITS}, {low}, {};", bytes - 1);
    line!(out, "setp.ne.or.u32 {outside}, {LOW_BITS}, 0, {outside};");
}
