//! Pointers that move through a loop whose passes are counted ahead (`near`): they are
//! fenced before the loop, and not in it.
//!
//! A pass makes the pointer of what it was by additions, each of a constant, or of a
//! register that the loop does not write. Compilers unroll loops, so there may be several.
//! All passes together move the pointer by a way that is known if the registers have
//! limits: before the loop, these are compared with what makes the way small enough, and
//! where one is larger, the far copy of the loop runs, which has fences.

use super::near::Body;
use crate::patch::line;
use ptx::OperandKind;

/// How many bytes a pointer moves in a loop without a fence, at most.
const WAY: i64 = 1 << 34;
/// Additions of a pass that are followed.
const LINKS: usize = 64;

/// The registers of 64 bits that may be such pointers.
#[derive(Clone, Debug, Default)]
pub(super) struct Moving {
    pub(super) pointers: Vec<Step>,
    /// The registers that are added to them.
    pub(super) limited: Vec<String>,
    /// How many bytes each of these may add, either way.
    pub(super) limit: i64,
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The instruction that makes it.
    pub(super) update: usize,
    /// The additions that lead from what it was to what it becomes, the last one first.
    pub(super) links: Vec<usize>,
    /// How many bytes all passes move it, in either direction, at most.
    pub(super) way: i64,
}

impl Moving {
    /// Of a loop that has so many passes at most.
    pub(super) fn of(body: &Body<'_, '_, '_>, passes: u64) -> Moving {
        let chains = body.indices().filter_map(|at| chain(body, at));
        let chains: Vec<Vec<(usize, String)>> = chains.collect();
        let names = |chain: &Vec<(usize, String)>| {
            let names = chain.iter().filter(|(_, by)| by.parse::<i64>().is_err());
            names.count()
        };
        let most = chains.iter().map(names).max().unwrap_or(0).max(1) as u64;
        let limit = WAY / (passes * most).next_power_of_two() as i64;
        let mut out = Moving {
            limit,
            ..Moving::default()
        };
        for chain in chains {
            let sizes = chain.iter().map(|(_, by)| match by.parse::<i64>() {
                Ok(by) => by.checked_abs().unwrap_or(i64::MAX),
                Err(_) => limit,
            });
            let sum = sizes.fold(0, i64::saturating_add);
            let way = sum.saturating_mul(passes as i64);
            let Some((update, _)) = chain.first().filter(|_| way <= WAY) else {
                continue;
            };
            out.pointers.push(Step {
                update: *update,
                links: chain.iter().map(|(at, _)| *at).collect(),
                way,
            });
            for (_, by) in &chain {
                if by.parse::<i64>().is_err() && !out.limited.contains(by) {
                    out.limited.push(by.clone());
                }
            }
        }
        out
    }

    /// Sets the predicate by which the far copy runs, also where what is added is larger
    /// than its limit.
    pub(super) fn limits(&self, out: &mut String) {
        for register in &self.limited {
            let most = self.limit;
            line!(out, "add.s64 %__rf_wide, {register}, {most};");
            line!(
                out,
                "setp.gt.or.u64 %__rf_due, %__rf_wide, {}, %__rf_due;",
                2 * most
            );
        }
    }
}

/// The additions that lead to what an instruction makes from what that was before, the
/// last one first; each with what it adds.
fn chain(body: &Body<'_, '_, '_>, update: usize) -> Option<Vec<(usize, String)>> {
    let own = &body.instruction(update).operands.first()?.kind;
    let OperandKind::Name(own) = own else {
        return None;
    };
    if body.only(own)?.0 != update {
        return None;
    }
    let (mut at, mut chain) = (update, Vec::new());
    while chain.len() < LINKS {
        let (from, by) = body.link(body.instruction(at), true)?;
        chain.push((at, by));
        if from == *own {
            return Some(chain);
        }
        at = body.only(from).filter(|(earlier, _)| *earlier < at)?.0;
    }
    None
}
