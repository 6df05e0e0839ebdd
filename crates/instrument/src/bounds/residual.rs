//! Decides which accesses of a kernel need no checks in its residual copy: those
//! that a launch can be proved for although others cannot be, because their
//! addresses depend on data. Each kernel has at most one such copy, which is
//! written with the checked one and used where its proof holds.
//!
//! An access loses its check only with its whole group, whose verdict the other
//! members use, and with the twins of that group.

use super::plan::Plan;
use super::prove::query;
use crate::output::{Obstacle, Reason};
use analysis::{Analysis, Loops, Program, Query};
use model::SiteId;

/// A copy is worth its size if it leaves out at least one check in so many of
/// those that a thread makes.
const GAIN: u64 = 8;

/// A check in a loop counts for so many outside of it.
const TRIPS: u64 = 8;

/// Deeper loops count as deep as that.
const DEEPEST: u32 = 4;

/// The accesses that have no checks in a residual copy.
pub(super) struct Elided {
    /// Decides whether they are in bounds.
    pub(super) proof: Program,
    /// What it decides: of each group, in order of the leaders.
    pub(super) queries: Vec<Query>,
    /// Whether the group with this number has no check.
    pub(super) groups: Vec<bool>,
}

impl Elided {
    /// The sites that lead the groups, in order.
    pub(super) fn sites(&self, plan: &Plan) -> Vec<SiteId> {
        let groups = plan.groups.iter().zip(&self.groups);
        let mut sites: Vec<SiteId> = groups
            .filter(|(_, elided)| **elided)
            .map(|(group, _)| group.site)
            .collect();
        sites.sort_unstable();
        sites
    }
}

/// The accesses that can do without checks where the whole kernel cannot, for
/// `obstacle`; `None` if there are too few of them.
pub(super) fn elided(
    analysis: &Analysis<'_, '_>,
    plan: &Plan,
    obstacle: &Obstacle,
) -> Option<Elided> {
    match obstacle.reason {
        // The host does not know the bounds.
        Reason::NoChecks | Reason::Parameters => return None,
        Reason::Address
        | Reason::Buffer
        | Reason::Extent
        | Reason::Unchecked
        | Reason::Call
        | Reason::Size => {}
    }
    let leaders = || plan.accesses.iter().filter(|access| access.leads);
    let mut asked: Vec<(u32, Query)> = leaders()
        .filter_map(|leader| Some((leader.group, query(analysis, plan, leader).ok()?)))
        .collect();
    let queries: Vec<Query> = asked.iter().map(|(_, query)| *query).collect();
    let mut provable = Program::provable(analysis, &queries).into_iter();
    asked.retain(|_| provable.next() == Some(true));
    let mut groups = vec![false; plan.groups.len()];
    for (group, _) in &asked {
        groups[*group as usize] = true;
    }
    with_twins(plan, &mut groups);
    asked.retain(|(group, _)| groups[*group as usize]);
    if !is_worth_while(analysis, plan, &groups) {
        return None;
    }
    let queries: Vec<Query> = asked.into_iter().map(|(_, query)| query).collect();
    let proof = Program::of(analysis, &queries).ok()?;
    Some(Elided {
        proof,
        queries,
        groups,
    })
}

/// Groups with one verdict have a check each, or none has.
pub(super) fn with_twins(plan: &Plan, elided: &mut [bool]) {
    let owner = |group: usize| plan.groups[group].twin.map_or(group, |twin| twin as usize);
    let mut all = vec![true; elided.len()];
    for group in 0..elided.len() {
        all[owner(group)] &= elided[group];
    }
    for group in 0..elided.len() {
        elided[group] = all[owner(group)];
    }
}

/// Whether a copy without these checks is so much faster that it is worth its
/// size.
fn is_worth_while(analysis: &Analysis<'_, '_>, plan: &Plan, elided: &[bool]) -> bool {
    if !elided.contains(&true) {
        return false;
    }
    let loops = Loops::of(&analysis.cfg, &analysis.dominators);
    let (mut all, mut without) = (0u64, 0u64);
    for leader in plan.accesses.iter().filter(|access| access.leads) {
        let block = analysis.cfg.block_of[leader.instruction as usize];
        let depth = loops.innermost(block).map_or(0, |around| around.depth);
        let count = TRIPS.pow(depth.min(DEEPEST));
        all = all.saturating_add(count);
        if elided[leader.group as usize] {
            without = without.saturating_add(count);
        }
    }
    without.saturating_mul(GAIN) >= all
}
