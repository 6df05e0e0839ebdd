//! What follows from the functions that a function calls: for the coverage of
//! kernels, for the stack that threads need, and for whether the driver's own
//! `malloc` is called.

use super::across::FunctionSummary;
use super::plan::callees;
use crate::device_heap;
use crate::device_runtime;
use crate::output::EntryPlan;
use model::KernelCoverage;
use ptx::Module;
use rustc_hash::{FxHashMap, FxHashSet};

/// The facts about a function that other functions and the output need.
#[derive(Default)]
pub(super) struct Done {
    pub(super) coverage: KernelCoverage,
    pub(super) calls: Vec<String>,
    pub(super) calls_unknown: bool,
    /// It carries checks, or has accesses that cannot be checked.
    pub(super) has_checks: bool,
}

impl Done {
    pub(super) fn of(summary: &FunctionSummary<'_, '_>) -> Done {
        let (calls, calls_unknown) = callees(&summary.analysis.code);
        Done {
            has_checks: summary.changes() || !summary.plan.coverage.unchecked_sites.is_empty(),
            coverage: summary.plan.coverage.clone(),
            calls,
            calls_unknown,
        }
    }
}

/// Adds to each entry the facts about its callees, and about the entries that it may
/// launch, which are checked in its launch.
pub(super) fn finish_entries(
    entries: &mut [EntryPlan],
    functions: &FxHashMap<String, Done>,
    launched: &FxHashSet<&str>,
) {
    for entry in entries {
        let Some(own) = functions.get(&entry.name) else {
            continue;
        };
        entry.coverage = own.coverage.clone();
        let mut direct: FxHashSet<&str> = own.calls.iter().map(String::as_str).collect();
        if !launched.is_empty()
            && may_call(own, functions, |name, _| {
                device_runtime::is_of_library(name)
            })
        {
            direct.extend(launched);
        }
        for callee in direct
            .iter()
            .filter(|name| **name != entry.name)
            .filter_map(|name| functions.get(*name))
        {
            entry.coverage.exact_sites += callee.coverage.exact_sites;
            entry.coverage.weak_sites += callee.coverage.weak_sites;
            entry.coverage.calls_without_bounds += callee.coverage.calls_without_bounds;
            for (opcode, count) in &callee.coverage.unchecked_sites {
                *entry
                    .coverage
                    .unchecked_sites
                    .entry(opcode.clone())
                    .or_default() += count;
            }
        }
    }
}

/// Whether a function may call one that `is_it`, which gets the name and, if the module
/// defines it, the facts about it. What is called through a pointer may be any.
pub(super) fn may_call(
    own: &Done,
    functions: &FxHashMap<String, Done>,
    is_it: impl Fn(&str, Option<&Done>) -> bool,
) -> bool {
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    let mut stack = vec![own];
    while let Some(done) = stack.pop() {
        if done.calls_unknown {
            return true;
        }
        for name in done.calls.iter().filter(|name| seen.insert(name)) {
            let callee = functions.get(name);
            if is_it(name, callee) {
                return true;
            }
            stack.extend(callee);
        }
    }
    false
}

/// Whether a function with checks calls itself, directly or indirectly, or
/// calls through pointers.
pub(super) fn stack_is_unknown(functions: &FxHashMap<String, Done>) -> bool {
    if !functions.values().any(|done| done.has_checks) {
        return false;
    }
    // Functions on the current path (false), or proved to reach no cycle
    // (true).
    let mut followed: FxHashMap<&str, bool> = FxHashMap::default();
    for name in functions.keys() {
        let mut path = vec![(name.as_str(), false)];
        while let Some((name, is_left)) = path.pop() {
            if is_left {
                followed.insert(name, true);
                continue;
            }
            match followed.get(name) {
                Some(true) => continue,
                Some(false) => return true,
                None => {}
            }
            let Some(done) = functions.get(name) else {
                continue;
            };
            if done.calls_unknown {
                return true;
            }
            followed.insert(name, false);
            path.push((name, true));
            let called: FxHashSet<&str> = done.calls.iter().map(String::as_str).collect();
            path.extend(called.into_iter().map(|name| (name, false)));
        }
    }
    false
}

/// Finds the entries that may call the driver's own `malloc`.
pub(super) fn finish_allocations(
    entries: &mut [EntryPlan],
    functions: &FxHashMap<String, Done>,
    module: &Module<'_>,
) {
    if !device_heap::declares(module) {
        return;
    }
    for entry in entries {
        let mut seen: FxHashSet<&str> = FxHashSet::default();
        let mut stack = vec![entry.name.as_str()];
        while let Some(name) = stack.pop() {
            if name == "malloc" {
                entry.uses_device_malloc = true;
                break;
            }
            if !seen.insert(name) {
                continue;
            }
            match functions.get(name) {
                // An indirect call may reach any function of the module.
                Some(done) if done.calls_unknown => {
                    entry.uses_device_malloc = true;
                    break;
                }
                Some(done) => stack.extend(done.calls.iter().map(String::as_str)),
                None => {}
            }
        }
    }
}
