//! Decides which accesses to global or generic addresses are skipped where their
//! check fails, instead of going to a sink.
//!
//! Skipping needs no second address: two instructions and two registers less a
//! check. But the results of a load must be set before it, one instruction a
//! register. So loads are skipped where their check has few results in all;
//! several loads share the sink of one check.
//!
//! Atomic operations are skipped in any case, as far as a move can set their
//! results: the sink is all threads', so what one of them leaves there decides
//! how often another one tries its compare-and-swap.

use super::plan::{Plan, Planned};
use super::predicated_off::is_read;
use super::window::FailurePolicy;
use analysis::{Analysis, Role};
use ptx::Mnemonic;
use ptx::table::Predication;

/// The most results of the loads of one check: as many instructions as it takes
/// to select an address.
const RESULTS: usize = 2;

impl Plan {
    /// Settles the policy of groups whose addresses would be replaced.
    pub(super) fn settle_skipped(&mut self, analysis: &Analysis<'_, '_>) {
        let mut results = vec![Some(0usize); self.groups.len()];
        for access in &self.accesses {
            let all = &mut results[access.group as usize];
            *all = all.and_then(|all| Some(all + results_of(analysis, access)?));
        }
        let skips = |group: u32| {
            let results = results.get(group as usize).copied().flatten();
            results.is_some_and(|results| results <= RESULTS)
        };
        for access in &mut self.accesses {
            let group = &mut self.groups[access.group as usize];
            if skips(access.group) {
                access.policy = FailurePolicy::Skipped;
                (group.redirects, group.skips) = (false, true);
            } else if is_skipped_atomic(analysis, access) {
                access.policy = FailurePolicy::Skipped;
                group.skips = true;
            }
        }
    }
}

/// Whether an access would go to a sink and can be skipped, if its results can
/// be set.
fn is_skippable(analysis: &Analysis<'_, '_>, access: &Planned) -> bool {
    let info = analysis.code.info(access.instruction as usize);
    access.policy == FailurePolicy::Redirected
        && info.is_some_and(|info| {
            info.predication == Predication::Lane
                && info.accesses.iter().all(|access| !access.asynchronous)
                && info.accesses.len() == 1
        })
}

/// Whether it is an atomic operation that is skipped, whatever becomes of the
/// other accesses of its check.
fn is_skipped_atomic(analysis: &Analysis<'_, '_>, access: &Planned) -> bool {
    let inst = &analysis.code.instructions[access.instruction as usize];
    inst.instruction.opcode.mnemonic() == Mnemonic::Atom
        && is_set_by_move(inst.register_bytes)
        && is_skippable(analysis, access)
}

/// Whether a move can write zero to registers of this size.
fn is_set_by_move(bytes: u8) -> bool {
    matches!(bytes, 2 | 4 | 8)
}

/// How many registers must be set before an access that is skipped; `None` if it
/// goes to a sink, or has another policy.
fn results_of(analysis: &Analysis<'_, '_>, access: &Planned) -> Option<usize> {
    let index = access.instruction as usize;
    let inst = &analysis.code.instructions[index];
    match inst.instruction.opcode.mnemonic() {
        _ if !is_skippable(analysis, access) => None,
        Mnemonic::St | Mnemonic::Red => Some(0),
        Mnemonic::Atom if is_set_by_move(inst.register_bytes) => Some(0),
        Mnemonic::Ld | Mnemonic::Ldu if is_set_by_move(inst.register_bytes) => {
            let references = analysis.code.references_of(index).iter();
            let written = references.filter(|reference| reference.role == Role::Write);
            let mut count = 0;
            for reference in written {
                count += 1;
                if is_read(&analysis.code, index, reference.referent) {
                    return None;
                }
            }
            Some(count)
        }
        _ => None,
    }
}
