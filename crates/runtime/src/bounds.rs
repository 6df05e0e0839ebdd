//! Exact bounds: a kernel is launched as it is, where its accesses are proved in
//! bounds, or as its checked copy, with the bounds of its pointers. Where some of
//! its accesses depend on data, and the others are proved, the residual copy is
//! launched, in which only the former carry checks. Copies that are checked
//! against shadow memory are launched in the same way.

use crate::allocations::{Allocations, is_seen_by_the_host, is_user_address};
use crate::checked_copies::Copies;
use crate::device_heap::DeviceHeap;
use crate::env::Env;
use crate::functions::{Build, Counted, Function, Proved};
use crate::memory::Memory;
use crate::prepare::Wanted;
use crate::proof;
use crate::protection::{ActsAt, Protection};
use crate::records::Records;
use crate::request::{Accounted, LaunchDecision, LaunchRequest, Unchecked};
use crate::roots::{Root, Roots};
use crate::seen::{Arguments, Recognised};
use crate::shadow::Shadow;
use crate::streams::{self, StreamUse, Streams, UseOrder, User};
use crate::window::LaunchWindow;
use instrument::{EntryPlan, LaunchShape, Program};
use model::{DeviceAddress, Extent, Prove, Rule, UncheckedReason};
use smallvec::SmallVec;
use std::sync::Arc;

/// The services that bounds use.
pub(crate) struct Below {
    pub env: Arc<Env>,
    pub memory: Arc<Memory>,
    pub allocations: Arc<Allocations>,
    pub streams: Arc<Streams>,
    pub records: Arc<Records>,
    pub heap: Arc<DeviceHeap>,
    pub copies: Arc<Copies>,
    pub shadow: Arc<Shadow>,
}

/// See the module's header.
pub(crate) struct Bounds {
    env: Arc<Env>,
    memory: Arc<Memory>,
    allocations: Arc<Allocations>,
    streams: Arc<Streams>,
    records: Arc<Records>,
    heap: Arc<DeviceHeap>,
    copies: Arc<Copies>,
    window: LaunchWindow,
    /// Launches that repeat a proved one run the program's kernel, and nothing else
    /// is examined.
    elides: bool,
    shadow: Arc<Shadow>,
}

impl Protection for Bounds {
    fn wants(&self) -> Wanted {
        let settings = self.env.settings();
        Wanted::Bounds {
            checked: settings.check_only,
            trap: settings.trap,
            in_place: !settings.hoist,
            shadow: settings.protect.shadow.then_some(settings.shadow_encoding),
        }
    }

    fn acts_at(&self) -> ActsAt {
        ActsAt {
            decisions: true,
            ..ActsAt::default()
        }
    }

    fn decide(
        &self,
        function: &Arc<Function>,
        request: &LaunchRequest<'_>,
        decision: &mut LaunchDecision,
    ) -> Option<Accounted> {
        Some(match self.choose(function, request, decision) {
            Ok(counted) => Accounted {
                counted,
                unchecked: match function.is_covered() {
                    true => Unchecked::Nothing,
                    false => Unchecked::Ignored,
                },
            },
            Err(reason) => {
                function.counts.unchecked(reason);
                // It may do anything, such as telling the host of its progress.
                self.streams.ordered(streams::Ordering::Everything);
                Accounted {
                    counted: Counted::Unchecked(reason),
                    unchecked: match reason {
                        UncheckedReason::Excluded => Unchecked::Ignored,
                        _ => Unchecked::Anything,
                    },
                }
            }
        })
    }
}

impl Bounds {
    pub fn new(below: Below) -> Bounds {
        let settings = below.env.settings();
        let window = LaunchWindow::new(settings.launch_skip, settings.launch_count);
        Bounds {
            elides: settings.prove == Prove::On && window.is_open(),
            window,
            env: below.env.clone(),
            memory: below.memory,
            allocations: below.allocations,
            streams: below.streams,
            records: below.records,
            heap: below.heap,
            copies: below.copies,
            shadow: below.shadow,
        }
    }

    /// What is launched, and as what it is counted: the program's kernel as it is,
    /// unless `decision` is changed. Written there, because it is large.
    fn choose(
        &self,
        function: &Arc<Function>,
        request: &LaunchRequest<'_>,
        decision: &mut LaunchDecision,
    ) -> Result<Counted, UncheckedReason> {
        // Bounds do not say what is poisoned.
        let has_poison = self.shadow.has_poison();
        if self.elides && !has_poison && self.comes_again(function, request) {
            function.counts.proved();
            *decision = LaunchDecision::Proved;
            return Ok(Counted::Proved);
        }
        if let Some(reason) = function.never_checked() {
            return Err(reason);
        }
        let plan = function.plan.as_ref().ok_or(UncheckedReason::LaunchPath)?;
        if plan.changes_originals() {
            self.copies.make_ready(plan, request.stream)?;
        }
        if function.excluded || !self.window.admits() {
            return Err(UncheckedReason::Excluded);
        }
        let entry = function
            .entry
            .as_ref()
            .ok_or(UncheckedReason::NotInstrumentable)?;
        if entry.checked_name.is_none() {
            self.streams.ordered(streams::Ordering::Everything);
            let sites = &entry.coverage;
            let in_functions =
                sites.exact_sites + sites.weak_sites + sites.calls_without_bounds > 0;
            if plan.instruments_functions() && in_functions {
                function.counts.checked();
                self.records.expect();
                *decision = LaunchDecision::InPlace;
                return Ok(Counted::Checked);
            }
            if !sites.unchecked_sites.is_empty() {
                return Err(UncheckedReason::NoCheckedSite);
            }
            // Nothing in it can go wrong.
            function.counts.proved();
            *decision = LaunchDecision::Proved;
            return Ok(Counted::Proved);
        }
        let checked = function.copies.checked.ok_or(UncheckedReason::Rejected)?;
        // The proof of the whole, or that of what the residual copy leaves out.
        let is_whole = entry.proof.is_ok();
        let proves = self.env.settings().prove != Prove::Off && !has_poison;
        let ranges = entry.program();
        let program = ranges.filter(|_| proves);
        let read = |offset, size| (request.read)(entry, offset, size);
        let arguments = Arguments::read(entry, ranges, request.shape, read)
            .ok_or(UncheckedReason::LaunchPath)?;
        let recognised = self.recognise(function, program, &arguments);
        let comes_again = matches!(recognised, Some((_, Recognised::Proved)));
        let is_elided = self.env.settings().prove == Prove::On;
        if comes_again && is_elided && is_whole {
            function.counts.proved();
            *decision = LaunchDecision::Proved;
            return Ok(Counted::Proved);
        }
        let (mut roots, are_known) = self.roots(function, entry, &arguments, request.stream);
        let (asked, answers) = (program.zip(arguments.inputs()), &function.answers);
        // (Which buffer a pointer is meant for is asked where nothing is proved, too.)
        let sought = ranges.zip(arguments.inputs());
        // What verifies proofs needs them all, and verifies what was recognised.
        let proved = comes_again
            || asked.is_some_and(|(program, inputs)| {
                answers.proves(program, request.shape, &roots, inputs, !is_elided)
            })
            || (!are_known && self.finds(sought, request.shape, &mut roots) && proves);
        if proved
            && are_known
            && let Some((generation, Recognised::New { is_kept: true })) = recognised
            && let Some((program, inputs)) = asked
            && let Some(holds) = answers.holds(program, request.shape, &roots, inputs)
        {
            function.seen.keep(generation, &arguments, &holds);
            // Functions that are checked in place must be made ready at each
            // launch, and copies get the bounds.
            if is_whole && !plan.changes_originals() {
                function.seen.lies_at(program, entry);
            }
        }
        if proved && is_elided && is_whole {
            function.counts.proved();
            *decision = LaunchDecision::Proved;
            return Ok(Counted::Proved);
        }
        self.copies.make_ready(plan, request.stream)?;
        let part = match is_whole {
            false => proved,
            // What is not proved as a whole may be in part.
            true => !proved && proves && self.proves_part(function, request, &roots),
        };
        let (launched, counted) =
            self.launch_copy((function, checked), request, roots, (part, proved))?;
        *decision = launched;
        Ok(counted)
    }

    /// Launches the residual copy of a kernel if what that leaves out is proved (`part`),
    /// else the checked one, of which all (`proved`) or that part may be.
    fn launch_copy(
        &self,
        (function, checked): (&Arc<Function>, u64),
        request: &LaunchRequest<'_>,
        roots: Roots,
        (part, proved): (bool, bool),
    ) -> Result<(LaunchDecision, Counted), UncheckedReason> {
        let shape = request.shape;
        let residual = function.copies.residual.filter(|_| {
            let is_elided = self.env.settings().prove == Prove::On;
            part && is_elided && Copies::fits(function, Build::Residual, shape)
        });
        let copy = residual.map_or((Build::Checked, checked), |copy| (Build::Residual, copy));
        // What the copy that runs leaves out is not said to be checked all the same.
        let proved = match (part, proved) {
            _ if residual.is_some() => Proved::Nothing,
            (true, _) => Proved::Part,
            (false, true) => Proved::Everything,
            (false, false) => Proved::Nothing,
        };
        let decision = self.copies.launch(function, shape, copy, roots, proved)?;
        Ok(match residual {
            Some(_) => {
                function.counts.residual();
                (decision, Counted::Residual)
            }
            None => {
                function.counts.checked();
                (decision, Counted::Checked)
            }
        })
    }

    /// Whether the accesses of a launch are proved that have no checks in the residual copy
    /// of a kernel, of which the whole has a proof of its own.
    fn proves_part(&self, function: &Function, request: &LaunchRequest<'_>, roots: &Roots) -> bool {
        let Some((entry, residual)) = function
            .entry
            .as_ref()
            .and_then(|entry| Some((entry, entry.residual.as_ref()?)))
        else {
            return false;
        };
        let program = &residual.proof;
        let inputs = program.inputs().iter();
        let inputs: Option<SmallVec<[u64; 24]>> = inputs
            .map(|input| (request.read)(entry, input.offset, input.bytes))
            .collect();
        let always = self.env.settings().prove == Prove::Verify;
        inputs.is_some_and(|inputs| {
            let answers = &function.answers_of_part;
            answers.proves(program, request.shape, roots, &inputs, always)
        })
    }

    /// Whether a launch repeats one that was proved. The earlier launch met all
    /// other conditions of [`Bounds::choose`], and these do not change. Only a plan
    /// can: the driver may reject the checked copy later, which a proved launch does
    /// not use.
    #[inline]
    fn comes_again(&self, function: &Function, request: &LaunchRequest<'_>) -> bool {
        let Some(entry) = function.entry.as_deref() else {
            return false;
        };
        // Where streams are distinguished, not all launches may use the same
        // memory.
        !self.streams.are_tracked()
            && function
                .seen
                .comes_again(self.memory.generation(), request.shape, |offset, size| {
                    (request.read)(entry, offset, size)
                })
    }

    /// What is known of a launch from those before it, and the generation of the
    /// allocations, which is read before any is looked up: what changes meanwhile
    /// makes it differ. `None` while streams are distinguished, where not all
    /// launches may use the same memory, and where nothing is proved.
    fn recognise(
        &self,
        function: &Function,
        program: Option<&Program>,
        arguments: &Arguments,
    ) -> Option<(u64, Recognised)> {
        program.filter(|_| !self.streams.are_tracked())?;
        let generation = self.memory.generation();
        Some((generation, function.seen.recognise(generation, arguments)))
    }

    /// Finds the allocations that pointers are meant for which lie in none. Whether
    /// the launch is proved in bounds with them.
    fn finds(
        &self,
        asked: Option<(&Program, &[u64])>,
        shape: &LaunchShape,
        roots: &mut Roots,
    ) -> bool {
        let candidates = |root: &Root| self.candidates(root);
        let meant = asked
            .and_then(|(program, inputs)| proof::meant(program, shape, roots, inputs, &candidates));
        meant.is_some_and(|meant| {
            *roots = meant.roots;
            meant.is_proved
        })
    }

    /// The live allocations that a pointer which lies in none may be meant for, the
    /// nearest first; none if it is one of memory that was freed, or not handed out.
    fn candidates(&self, root: &Root) -> Vec<Extent> {
        let pointer = DeviceAddress(root.pointer);
        if !is_user_address(root.pointer)
            || self.heap.holds(pointer)
            || self.memory.was_freed(pointer)
            || self.allocations.is_nobodys(pointer)
        {
            return Vec::new();
        }
        let mut extents: Vec<Extent> = self.memory.read(|registry| {
            let live = registry.iter().map(|entry| entry.allocation.extent);
            live.filter(|extent| extent.size != 0).collect()
        });
        let distance = |extent: &Extent| extent.base.0.abs_diff(pointer.0);
        // (There may be a million, at each launch.)
        if extents.len() > proof::CANDIDATES {
            extents.select_nth_unstable_by_key(proof::CANDIDATES, distance);
            extents.truncate(proof::CANDIDATES);
        }
        extents.sort_unstable_by_key(distance);
        extents
    }

    /// The pointer parameters and what they point into, and whether those that
    /// point into memory all point into allocations that are known.
    fn roots(
        &self,
        function: &Arc<Function>,
        entry: &EntryPlan,
        arguments: &Arguments,
        stream: Option<StreamUse>,
    ) -> (Roots, bool) {
        let mut roots: Roots = Roots::with_capacity(entry.roots.len());
        let nothing = Extent {
            base: DeviceAddress(0),
            size: 0,
        };
        for (offset, pointer) in entry.roots.iter().zip(arguments.pointers()) {
            roots.push(Root {
                offset: *offset,
                pointer: *pointer,
                bounds: nothing,
                is_lasting: false,
                wrong: None,
            });
        }
        let mut unknown = false;
        let mut signals = false;
        self.memory.read(|registry| {
            for root in &mut roots {
                match registry.find_part(DeviceAddress(root.pointer)) {
                    Some(found) => {
                        root.bounds = found.allocation.extent;
                        root.is_lasting = !self.heap.holds(DeviceAddress(root.pointer));
                        signals |= is_seen_by_the_host(found.allocation.kind);
                    }
                    None => unknown |= is_user_address(root.pointer),
                }
            }
        });
        if unknown {
            for root in roots.iter_mut().filter(|root| root.bounds.size == 0) {
                let pointer = DeviceAddress(root.pointer);
                let found = if self.heap.holds(pointer) {
                    self.heap.bounds(pointer)
                } else {
                    let known = self.allocations.ask_driver(pointer);
                    known.or_else(|| self.allocations.outside(pointer))
                };
                root.bounds = found.unwrap_or(nothing);
            }
        }
        if let Some(stream) = stream.filter(|_| self.streams.are_tracked()) {
            let addresses: SmallVec<[DeviceAddress; 4]> =
                roots.iter().map(|root| root.bounds.base).collect();
            let user = User::Kernel(function.clone());
            let orders = self.streams.used(stream, &user, signals, addresses);
            for (root, order) in roots.iter_mut().zip(orders) {
                match order {
                    UseOrder::Right => continue,
                    UseOrder::Freed => root.wrong = Some(Rule::UseAfterFree),
                    UseOrder::Wrong(rule) => root.wrong = Some(rule),
                }
                root.bounds = nothing;
            }
        }
        if self.shadow.has_poison() {
            for root in &mut roots {
                root.is_lasting = false;
            }
        }
        (roots, !unknown)
    }
}
