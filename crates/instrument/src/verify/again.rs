//! Code that is written twice (`crate::again`): first with accesses left out that are not in
//! the buffers of parameters, then with checks that decide.
//!
//! The first copy may leave an access out without a record, if it notes that in the
//! predicate that decides whether the second one runs. The second one must be executable
//! behind the first, as if that had not run; and what comes behind both may use a verdict
//! only if both made it, of the same bytes.

use super::Errors;
use super::ahead::Previous;
use super::checks::{Input, State, Text};
use super::verdicts::{Redirect, Verdict};
use super::written::reads;
use crate::again::Repeatable;
use crate::protocol::LABEL_PREFIX;
use crate::protocol::register::{FAR, SITE};
use ptx::{Label, Span};
use rustc_hash::FxHashMap;

/// The first instruction of such code, and whether it is in a loop's quick copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    first: usize,
    in_copy: bool,
}

impl Mark {
    /// That of a label for this purpose.
    pub(super) fn of(label: &str, purpose: &str) -> Option<Mark> {
        let rest = label.strip_prefix(LABEL_PREFIX)?.strip_prefix(purpose)?;
        let digits = rest.strip_suffix('q');
        let in_copy = digits.is_some();
        let digits = digits.unwrap_or(rest);
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let first = is_number.then(|| digits.parse().ok())??;
        Some(Mark { first, in_copy })
    }

    fn label(self, purpose: &str) -> String {
        let (first, copy) = (self.first, if self.in_copy { "q" } else { "" });
        format!("{LABEL_PREFIX}{purpose}{first}{copy}")
    }
}

/// Verdicts by their predicates, and addresses that were selected by them.
#[derive(Default)]
struct Made {
    verdicts: FxHashMap<Text, Verdict>,
    redirects: FxHashMap<Text, Redirect>,
}

/// The first copy, while it is read.
struct First {
    mark: Mark,
    before: Made,
    sites: u32,
    unchecked: usize,
    /// The predicate is set.
    is_begun: bool,
    /// Where the branch over the second copy ends.
    branch: Option<u32>,
}

/// The first copy, while the second one is read.
struct Second {
    mark: Mark,
    /// The instruction behind both.
    end: usize,
    made: Made,
}

/// What is known of code that is written twice.
#[derive(Default)]
pub(super) struct Twice {
    first: Option<First>,
    second: Option<Second>,
}

impl Twice {
    /// Whether the first copy is read, and may note what it leaves out.
    pub(super) fn is_first(&self) -> bool {
        self.first.as_ref().is_some_and(|first| first.is_begun)
    }

    /// Whether one of the copies is read: only checks may be in both.
    pub(super) fn is_read(&self) -> bool {
        self.first.is_some() || self.second.is_some()
    }
}

impl State {
    /// The first copy begins.
    pub(super) fn first_begins(
        &mut self,
        mark: Mark,
        span: Span,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let is_here = self.loops.next == mark.first && self.loops.is_in_copy() == mark.in_copy;
        if !is_here || self.twice.is_read() || input.shadow.is_none() || !self.unsited.is_empty() {
            errors.at(span, "code that is written twice begins elsewhere");
        }
        self.roots.is_head = false;
        self.forget_scratch_registers();
        self.loops.previous = Previous::Other;
        self.twice.first = Some(First {
            mark,
            before: Made {
                verdicts: self.verdicts.clone(),
                redirects: self.redirects.clone(),
            },
            sites: self.sites,
            unchecked: self.unchecked.len(),
            is_begun: false,
            branch: None,
        });
    }

    /// Reads the code at both ends of the first copy.
    pub(super) fn first_copy_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let first = self.twice.first.as_mut()?;
        if !first.is_begun {
            let end = reads(
                input.new,
                at,
                format_args!("setp.ne.s32 {FAR}, {SITE}, {SITE};"),
            )?;
            first.is_begun = true;
            return Some(end);
        }
        let kept = first.mark.label("kept");
        let end = reads(input.new, at, format_args!("@!{FAR} bra {kept};"))?;
        first.branch = Some(end);
        Some(end)
    }

    /// The first copy ends, and the second one begins.
    pub(super) fn second_begins(
        &mut self,
        mark: Mark,
        span: Span,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let Some(first) = self.twice.first.take() else {
            return errors.at(span, "a second copy without a first one");
        };
        let end = self.loops.next;
        let mut all = Repeatable::from(input.analysis, mark.first);
        let is_repeatable = mark.first < end && (mark.first..end).all(|_| all.takes_next());
        let is_behind_branch = first
            .branch
            .and_then(|from| input.new.get(from as usize..span.start as usize))
            .is_some_and(|between| between.trim().is_empty());
        if first.mark != mark || !is_repeatable || !is_behind_branch || !self.unsited.is_empty() {
            errors.at(span, "the code before this cannot be executed once more");
        }
        self.must_be_set(errors, span);
        self.forget_scratch_registers();
        self.found = None;
        let made = Made {
            verdicts: std::mem::take(&mut self.verdicts),
            redirects: std::mem::take(&mut self.redirects),
        };
        // What the first copy has made anew is not what it was.
        let Made {
            mut verdicts,
            mut redirects,
        } = first.before;
        let stands =
            |own: &Verdict, now: Option<&Verdict>| now.is_some_and(|now| now.serial == own.serial);
        verdicts.retain(|name, own| stands(own, made.verdicts.get(name)));
        redirects.retain(|name, own| {
            let now = made.redirects.get(name).map(|now| &now.verdict);
            stands(&own.verdict, now)
        });
        (self.verdicts, self.redirects) = (verdicts, redirects);
        (self.sites, self.loops.next) = (first.sites, mark.first);
        self.unchecked.truncate(first.unchecked);
        self.loops.previous = Previous::Other;
        self.twice.second = Some(Second { mark, end, made });
    }

    /// The label behind both copies; whether it is one.
    pub(super) fn both_end(&mut self, label: &Label<'_>, errors: &mut Errors<'_>) -> bool {
        let Some(mark) = Mark::of(label.name, "kept") else {
            return false;
        };
        let Some(second) = self.twice.second.take() else {
            return false;
        };
        if second.mark != mark || second.end != self.loops.next || !self.unsited.is_empty() {
            return false;
        }
        self.must_be_set(errors, label.span);
        self.forget_scratch_registers();
        self.found = None;
        let made = &second.made;
        let needs = &mut self.needs;
        self.verdicts.retain(|name, own| {
            let other = made.verdicts.get(name);
            let other = other.filter(|other| are_of_the_same(own, other));
            // The bytes of later accesses are held against the second one.
            if let Some(other) = other
                && other.serial != own.serial
            {
                needs.remove(&other.serial);
            }
            other.is_some()
        });
        self.redirects.retain(|name, own| {
            let other = made.redirects.get(name);
            other.is_some_and(|other| {
                own.pointer == other.pointer
                    && own.sink == other.sink
                    && are_of_the_same(&own.verdict, &other.verdict)
            })
        });
        true
    }

    /// Code that is begun must have an end.
    pub(super) fn all_written_twice(&self, input: &Input<'_, '_, '_>, errors: &mut Errors<'_>) {
        if self.twice.is_read() {
            errors.at(input.span, "code that is written twice has no end");
        }
    }
}

/// Whether two verdicts are one, or are about the same bytes under the same guards.
fn are_of_the_same(own: &Verdict, other: &Verdict) -> bool {
    let is_alike = own.distance.pointer == other.distance.pointer
        && own.distance.low == other.distance.low
        && own.less == other.less
        && own.guards == other.guards
        && own.lanes == other.lanes
        && own.count.is_none()
        && other.count.is_none();
    own.serial == other.serial || is_alike
}
