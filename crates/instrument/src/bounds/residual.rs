//! Decides which accesses of a kernel need no checks in its residual copy: those
//! that a launch can be proved for although others cannot be, because their
//! addresses depend on data, or are not likely to be (`plausible`). Each kernel has at
//! most one such copy, which is written with the checked one and used where its proof
//! holds, and the proof of the whole does not.
//!
//! An access loses its check only with its whole group, whose verdict the other
//! members use, and with the twins of that group.

use super::plan::Plan;
use super::plausible::plausible;
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

/// The accesses that can do without checks where the whole kernel cannot, or is not
/// likely to, as `proof` says; `None` if there are too few of them.
pub(super) fn elided(
    (analysis, plan): (&Analysis<'_, '_>, &Plan),
    proof: &Result<Program, Obstacle>,
) -> Option<Elided> {
    match proof.as_ref().map_err(|obstacle| obstacle.reason) {
        // The host does not know the bounds.
        Err(Reason::NoChecks | Reason::Parameters) => return None,
        Err(
            Reason::Address
            | Reason::Buffer
            | Reason::Extent
            | Reason::Unchecked
            | Reason::Call
            | Reason::Size,
        ) => {}
        Ok(_) => {}
    }
    let asked = provable(analysis, plan);
    let is_whole = proof.is_ok();
    let all = match proof {
        Ok(program) => Some(program.clone()),
        Err(_) => program(analysis, &asked),
    };
    let plausible = all.map(|program| {
        let plausible = plausible(analysis.code.function, &program, asked.len());
        let likely = asked.iter().zip(plausible).filter(|(_, is)| *is);
        likely.map(|(asked, _)| *asked).collect::<Vec<_>>()
    });
    let all_are_likely = plausible
        .as_ref()
        .is_none_or(|some| some.len() == asked.len());
    let likely = plausible.filter(|_| !all_are_likely);
    let likely = likely.and_then(|likely| without(analysis, plan, likely));
    match likely {
        None if is_whole => None,
        None => without(analysis, plan, asked),
        some => some,
    }
}

/// The groups of which some launch can be proved, each for itself, and what is asked of
/// them.
fn provable(analysis: &Analysis<'_, '_>, plan: &Plan) -> Vec<(u32, Query)> {
    let leaders = plan.accesses.iter().filter(|access| access.leads);
    let mut asked: Vec<(u32, Query)> = leaders
        .filter_map(|leader| Some((leader.group, query(analysis, plan, leader).ok()?)))
        .collect();
    let queries: Vec<Query> = asked.iter().map(|(_, query)| *query).collect();
    let mut provable = Program::provable(analysis, &queries).into_iter();
    asked.retain(|_| provable.next() == Some(true));
    asked
}

/// The program that decides about all that is asked.
fn program(analysis: &Analysis<'_, '_>, asked: &[(u32, Query)]) -> Option<Program> {
    let queries: Vec<Query> = asked.iter().map(|(_, query)| *query).collect();
    Program::of(analysis, &queries).ok()
}

/// A copy without the checks of some groups, if it is worth its size.
fn without(
    analysis: &Analysis<'_, '_>,
    plan: &Plan,
    mut asked: Vec<(u32, Query)>,
) -> Option<Elided> {
    let mut groups = vec![false; plan.groups.len()];
    for (group, _) in &asked {
        groups[*group as usize] = true;
    }
    with_twins(plan, &mut groups);
    asked.retain(|(group, _)| groups[*group as usize]);
    if !is_worth_while(analysis, plan, &groups) {
        return None;
    }
    let proof = program(analysis, &asked)?;
    Some(Elided {
        proof,
        queries: asked.into_iter().map(|(_, query)| query).collect(),
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
