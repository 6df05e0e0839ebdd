//! The kernels that the program has handles of, and how their launches went.

mod memo;

pub(crate) use memo::put_back;

use crate::moment;
use crate::plan::ModulePlan;
use crate::proof::Answers;
use crate::seen::Seen;
use instrument::EntryPlan;
use memo::Versions;
use model::{Coverage, KernelCoverage, UncheckedReason};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How a launch was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// As proved in bounds.
    Proved,
    /// As checked.
    Checked,
    /// As checked, where only accesses that are not proved carry checks.
    Residual,
    /// As not checked.
    Unchecked(UncheckedReason),
    /// As not checked, but followed by a scan of canaries.
    Verified(UncheckedReason),
}

impl Counted {
    /// A small number for [`Counted::from_code`].
    pub fn code(self) -> u64 {
        let all = UncheckedReason::COUNT as u64;
        match self {
            Counted::Proved => 0,
            Counted::Checked => 1,
            Counted::Residual => 2,
            Counted::Unchecked(reason) => 3 + reason.index() as u64,
            Counted::Verified(reason) => 3 + all + reason.index() as u64,
        }
    }

    /// What has this number.
    pub fn from_code(code: u64) -> Option<Counted> {
        let reason = |index: u64| {
            let index = usize::try_from(index).ok()?;
            UncheckedReason::ALL.get(index).copied()
        };
        let all = UncheckedReason::COUNT as u64;
        match code {
            0 => Some(Counted::Proved),
            1 => Some(Counted::Checked),
            2 => Some(Counted::Residual),
            _ if code < 3 + all => reason(code - 3).map(Counted::Unchecked),
            _ => reason(code - 3 - all).map(Counted::Verified),
        }
    }
}

/// Handles of the instrumented copies of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCopies {
    /// The one in which all accesses are checked.
    pub checked: Option<u64>,
    /// The one in which accesses that are proved at a launch carry no checks.
    pub residual: Option<u64>,
}

impl KernelCopies {
    /// Those that there are.
    pub fn all(self) -> impl Iterator<Item = u64> {
        [self.checked, self.residual].into_iter().flatten()
    }

    /// The handle of one of them, if there is one.
    pub(crate) fn handle(self, build: Build) -> Option<u64> {
        match build {
            Build::Checked => self.checked,
            Build::Residual => self.residual,
        }
    }
}

/// One of the instrumented copies of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// All accesses are checked.
    Checked,
    /// Accesses that are proved at a launch carry no checks.
    Residual,
}

/// Which accesses of a launch were proved in bounds although they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proved {
    /// None.
    Nothing,
    /// Those that have no checks in the kernel's residual copy.
    Part,
    /// All.
    Everything,
}

/// A kernel of a loaded module.
#[derive(Debug)]
pub(crate) struct Function {
    /// The program's handle.
    pub handle: u64,
    /// Whether that is a CUkernel, not a CUfunction.
    pub in_library: bool,
    pub name: String,
    pub module: u64,
    /// The instrumented copies.
    pub copies: KernelCopies,
    pub entry: Option<Arc<EntryPlan>>,
    pub plan: Option<Arc<ModulePlan>>,
    /// Excluded by name.
    pub excluded: bool,
    /// Largest block that the checked copy, and the residual one, can be
    /// launched with; 0 if not known.
    pub most_threads: [AtomicU32; 2],
    /// Whether the device was asked for that.
    pub limit_known: AtomicBool,
    /// Host call stacks taken of its launches.
    pub stacks: AtomicU32,
    /// Which of its launches were proved in bounds.
    pub answers: Answers,
    /// And which in part, where that is asked besides.
    pub answers_of_part: Answers,
    /// Which of them come again as they were.
    pub seen: Seen,
    pub counts: Counts,
}

impl Function {
    /// Why no launch of it is ever checked, if that is so under bounds.
    pub fn never_checked(&self) -> Option<UncheckedReason> {
        match &self.plan {
            Some(plan) => plan.unchecked_reason(),
            None => Some(UncheckedReason::LaunchPath),
        }
    }

    /// Whether all that a checked launch accesses is checked.
    pub fn is_covered(&self) -> bool {
        let entry = self.entry.as_ref();
        entry.is_some_and(|entry| entry.coverage.unchecked_sites.is_empty())
    }
}

/// See [`Counts::close`].
const CLOSED: u64 = 1 << 63;

/// Launches by outcome.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Launches that were proved, and in the highest bit whether no launch is to be
    /// counted any more: those that repeat one read both, and nothing else here.
    proved: AtomicU64,
    checked: AtomicU64,
    residual: AtomicU64,
    unchecked: [AtomicU64; UncheckedReason::COUNT],
    verified: AtomicU64,
}

impl Counts {
    pub fn proved(&self) {
        self.proved.fetch_add(1, Ordering::Relaxed);
    }

    /// The kernel is gone: its handle may come again as that of another.
    fn close(&self) {
        self.proved.fetch_or(CLOSED, Ordering::Release);
    }

    /// Whether the kernel is gone.
    #[inline]
    pub fn are_closed(&self) -> bool {
        self.proved.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Launches that were proved.
    fn are_proved(&self) -> u64 {
        self.proved.load(Ordering::Relaxed) & !CLOSED
    }

    pub fn checked(&self) {
        self.checked.fetch_add(1, Ordering::Relaxed);
    }

    pub fn residual(&self) {
        self.residual.fetch_add(1, Ordering::Relaxed);
    }

    pub fn unchecked(&self, reason: UncheckedReason) {
        self.unchecked[reason.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// An unchecked launch is followed by a look at canaries.
    pub fn verified(&self) {
        self.verified.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a launch.
    #[inline]
    pub fn count(&self, counted: Counted) {
        self.count_all(counted, 1);
    }

    /// Counts so many launches.
    #[inline]
    pub fn count_all(&self, counted: Counted, launches: u64) {
        let more = |count: &AtomicU64| count.fetch_add(launches, Ordering::Relaxed);
        match counted {
            Counted::Proved => more(&self.proved),
            Counted::Checked => more(&self.checked),
            Counted::Residual => more(&self.residual),
            Counted::Unchecked(reason) => more(&self.unchecked[reason.index()]),
            Counted::Verified(reason) => {
                more(&self.unchecked[reason.index()]);
                more(&self.verified)
            }
        };
    }

    /// Takes one launch back: it went another way after all, or never ran.
    pub fn take_back(&self, counted: Counted) {
        let less = |count: &AtomicU64| {
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                count.checked_sub(1)
            });
        };
        match counted {
            Counted::Proved => less(&self.proved),
            Counted::Checked => less(&self.checked),
            Counted::Residual => less(&self.residual),
            Counted::Unchecked(reason) | Counted::Verified(reason) => {
                less(&self.unchecked[reason.index()]);
                if let Counted::Verified(_) = counted {
                    less(&self.verified);
                }
            }
        }
    }

    pub fn add_to(&self, coverage: &mut KernelCoverage) {
        coverage.proved += self.are_proved();
        let residual = self.residual.load(Ordering::Relaxed);
        coverage.checked += self.checked.load(Ordering::Relaxed) + residual;
        coverage.residual += residual;
        coverage.verified += self.verified.load(Ordering::Relaxed);
        for (reason, count) in UncheckedReason::ALL.iter().zip(&self.unchecked) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                *coverage.unchecked.entry(*reason).or_default() += count;
            }
        }
    }

    fn any(&self) -> bool {
        let loaded = |count: &AtomicU64| count.load(Ordering::Relaxed) > 0;
        let with_checks = loaded(&self.checked) || loaded(&self.residual);
        self.are_proved() > 0 || with_checks || self.unchecked.iter().any(loaded)
    }
}

/// All kernels by handle.
#[derive(Default)]
pub(crate) struct Functions {
    by_handle: RwLock<FxHashMap<u64, Arc<Function>>>,
    /// Of `by_handle`.
    versions: Versions,
    /// From an instrumented copy to the program's kernel.
    originals: RwLock<FxHashMap<u64, u64>>,
    /// Launches of kernels whose module was unloaded.
    unloaded: Mutex<Coverage>,
    /// Launches of handles that are not known.
    unknown: Counts,
}

/// Name under which launches of unknown handles are counted.
const UNKNOWN: &str = "(unknown kernel)";

impl Functions {
    pub fn insert(&self, function: Function) {
        let (handle, copies) = (function.handle, function.copies);
        let old = {
            let mut functions = self.by_handle.write();
            self.versions.changed();
            functions.insert(handle, Arc::new(function))
        };
        moment::kernels_changed();
        if let Some(old) = old {
            self.retire(&old);
        }
        let mut originals = self.originals.write();
        originals.extend(copies.all().map(|copy| (copy, handle)));
    }

    pub fn get(&self, handle: u64) -> Option<Arc<Function>> {
        self.by_handle.read().get(&handle).cloned()
    }

    /// The same for a launch, which gives it to [`put_back`] when it
    /// is over.
    #[inline]
    pub fn take(&self, handle: u64) -> Option<Arc<Function>> {
        self.versions.take(handle, || self.get(handle))
    }

    /// Whether a handle is known with this name and these copies.
    pub fn knows(&self, handle: u64, module: u64, name: &str, copies: KernelCopies) -> bool {
        self.by_handle.read().get(&handle).is_some_and(|function| {
            function.module == module && function.name == name && function.copies == copies
        })
    }

    pub fn count_unknown(&self, reason: UncheckedReason) {
        self.unknown.unchecked(reason);
    }

    /// The program's kernel that a handle means, which may be its own or that
    /// of its instrumented copy.
    pub fn original(&self, handle: u64) -> Option<u64> {
        if self.by_handle.read().contains_key(&handle) {
            return Some(handle);
        }
        self.of_copy(handle)
    }

    /// The program's kernel, where the handle is that of an instrumented copy.
    pub fn of_copy(&self, handle: u64) -> Option<u64> {
        self.originals.read().get(&handle).copied()
    }

    /// Every kernel of a library.
    pub fn of_libraries(&self) -> Vec<Arc<Function>> {
        let functions = self.by_handle.read();
        let kernels = functions.values().filter(|function| function.in_library);
        kernels.cloned().collect()
    }

    pub fn unload(&self, module: u64) {
        let mut gone = Vec::new();
        let mut functions = self.by_handle.write();
        self.versions.changed();
        functions.retain(|_, function| {
            let keep = function.module != module;
            if !keep {
                gone.push(function.clone());
            }
            keep
        });
        drop(functions);
        moment::kernels_changed();
        for function in gone {
            self.retire(&function);
        }
    }

    /// Counts what was launched of a kernel that is gone, and forgets its copies.
    fn retire(&self, function: &Function) {
        function.counts.close();
        for copy in function.copies.all() {
            self.originals.write().remove(&copy);
        }
        add(&mut self.unloaded.lock(), function);
    }

    /// The kernel whose code holds the part with this tag, if it is the only
    /// one that was launched: records of device functions do not say which kernel
    /// called them.
    pub fn only_user_of(&self, tag: u64) -> Option<String> {
        let functions = self.by_handle.read();
        let holds = |plan: &Arc<ModulePlan>| plan.parts.iter().any(|part| part.tag == tag);
        let mut users = functions
            .values()
            .filter(|function| function.counts.any())
            .filter(|function| function.plan.as_ref().is_some_and(holds));
        let user = users.next()?;
        users.next().is_none().then(|| user.name.clone())
    }

    /// Every kernel that was launched so far.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = self.unloaded.lock().clone();
        // Copied out first: a launch must not wait for the sums.
        let functions: Vec<Arc<Function>> = self.by_handle.read().values().cloned().collect();
        for function in functions {
            add(&mut coverage, &function);
        }
        if self.unknown.any() {
            self.unknown
                .add_to(coverage.kernels.entry(UNKNOWN.into()).or_default());
        }
        coverage
    }
}

fn add(coverage: &mut Coverage, function: &Function) {
    if !function.counts.any() {
        return;
    }
    let kernel = coverage.kernels.entry(function.name.clone()).or_default();
    function.counts.add_to(kernel);
    if let Some(entry) = &function.entry {
        kernel.exact_sites = entry.coverage.exact_sites;
        kernel.weak_sites = entry.coverage.weak_sites;
        kernel.calls_without_bounds = entry.coverage.calls_without_bounds;
        kernel
            .unchecked_sites
            .clone_from(&entry.coverage.unchecked_sites);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A kernel of which only this is known.
    pub fn function(handle: u64, name: &str, module: u64) -> Function {
        Function {
            handle,
            in_library: false,
            name: name.into(),
            module,
            copies: KernelCopies {
                checked: Some(handle + 1000),
                residual: Some(handle + 2000),
            },
            entry: None,
            plan: None,
            excluded: false,
            most_threads: Default::default(),
            limit_known: AtomicBool::new(false),
            stacks: AtomicU32::new(0),
            answers: Answers::default(),
            answers_of_part: Answers::default(),
            seen: Seen::default(),
            counts: Counts::default(),
        }
    }

    #[test]
    fn counts_survive_unloading_and_reuse_of_handles() {
        let functions = Functions::default();
        functions.insert(function(10, "a", 1));
        functions.get(10).unwrap().counts.checked();
        functions.insert(function(10, "a", 2));
        assert_eq!(functions.original(1010), Some(10));
        assert_eq!(functions.original(2010), Some(10));
        functions.get(10).unwrap().counts.checked();
        functions
            .get(10)
            .unwrap()
            .counts
            .unchecked(UncheckedReason::Registers);
        functions.insert(function(11, "never-launched", 2));
        functions.unload(2);
        assert!(functions.get(10).is_none());
        assert_eq!(functions.original(1010), None);
        assert_eq!(functions.original(2010), None);
        functions.count_unknown(UncheckedReason::LaunchPath);
        let coverage = functions.coverage();
        assert_eq!(coverage.kernels["a"].checked, 2);
        assert_eq!(
            coverage.kernels["a"].unchecked[&UncheckedReason::Registers],
            1
        );
        assert_eq!(
            coverage.kernels[UNKNOWN].unchecked[&UncheckedReason::LaunchPath],
            1
        );
        assert!(!coverage.kernels.contains_key("never-launched"));
    }

    #[test]
    fn every_reason_has_a_counter() {
        let counts = Counts::default();
        for reason in UncheckedReason::ALL {
            counts.unchecked(*reason);
        }
        let mut coverage = KernelCoverage::default();
        counts.add_to(&mut coverage);
        assert_eq!(coverage.unchecked.len(), UncheckedReason::COUNT);
        assert!(coverage.unchecked.values().all(|count| *count == 1));
    }

    #[test]
    fn a_code_tells_how_a_launch_was_counted() {
        let mut all = vec![Counted::Proved, Counted::Checked, Counted::Residual];
        all.extend(
            UncheckedReason::ALL
                .iter()
                .map(|reason| Counted::Unchecked(*reason)),
        );
        all.extend(
            UncheckedReason::ALL
                .iter()
                .map(|reason| Counted::Verified(*reason)),
        );
        for (code, counted) in all.iter().enumerate() {
            assert_eq!(counted.code(), code as u64);
            assert_eq!(Counted::from_code(code as u64), Some(*counted));
        }
        assert_eq!(Counted::from_code(all.len() as u64), None);
    }
}
