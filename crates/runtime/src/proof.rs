//! Whether a launch is proved in bounds. The answer follows from the launch's
//! shape, scalars and buffers. Evaluating it takes about as long as a launch
//! itself where the arithmetic is long, so that three things keep it rare:
//!
//! * The last answers are kept: programs launch the same kernels with the
//!   same arguments again and again.
//! * A proof is made for all values between those seen of a scalar, and some
//!   beyond: programs launch a kernel for each step of a loop.
//! * What depends only on where a pointer lies in its buffer is asked that
//!   way: programs allocate buffers anew for each launch.
//!
//! What is not proved of all threads at once is tried in parts, by some threads each.
//! Where launches differ in other ways, and their proofs take longer than
//! [`CHEAP`], evaluation stops when it has taken its [`SHARE`] of the time since
//! the kernel's first launch; the kernel's other launches are then checked.

use crate::roots::{JUST_OUTSIDE, Root, Roots};
use crate::seen::{Inputs, shape_words};
use instrument::{BoundedPointer, InParts, LaunchShape, Program, Values};
use model::layout::UNBOUNDED;
use model::{DeviceAddress, Extent};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::time::{Duration, Instant};

/// Answers kept for each kernel: programs that swap two buffers, at several
/// sizes.
const KEPT: usize = 8;

/// Evaluation may take one part in so many of the time since the first.
const SHARE: u32 = 50;

/// Evaluation that is always paid for: thousands of launches.
const CREDIT: Duration = Duration::from_millis(5);

/// Evaluations that take no longer on average than this are always paid for,
/// too: a launch takes longer.
const CHEAP: Duration = Duration::from_micros(2);

/// What one operation of a proof takes at most; more is a thread that was
/// not running.
const OPERATION: Duration = Duration::from_nanos(500);

/// How many allocations are tried for a pointer that lies in none.
pub(crate) const CANDIDATES: usize = 32;

/// A proof that holds is tried for a range of values so many times as wide,
/// the first time as a power of two.
const WIDER: u32 = 6;

/// Launches of a kernel, one after the other, that are tried in parts and not proved so
/// either, until no more are tried.
const IN_VAIN: u32 = 3;

/// All that an answer depends on.
type Question = SmallVec<[u64; 24]>;

/// The last answers of one kernel.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    answers: Vec<Answer>,
    /// The one to forget next.
    oldest: usize,
    /// Time that evaluation has taken.
    spent: Duration,
    /// How often the program was evaluated.
    evaluations: u32,
    /// The last launches that were not proved in parts either.
    in_vain: u32,
    /// When the first evaluation began.
    since: Option<Instant>,
}

/// The answer to all questions between two.
#[derive(Clone, Debug)]
struct Answer {
    low: Question,
    high: Question,
    is_proved: bool,
    /// Some of the threads were asked about at a time.
    in_parts: bool,
    /// The next value below or above for which no proof was found, of the
    /// scalar that was last widened.
    limit: Option<Limit>,
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    scalar: usize,
    value: u64,
}

impl Answers {
    /// Whether no access of the launch can leave its buffer. `inputs` are the
    /// launch's values of the program's inputs. `always`: whatever it costs.
    pub fn proves(
        &self,
        program: &Program,
        shape: &LaunchShape,
        roots: &Roots,
        inputs: &[u64],
        always: bool,
    ) -> bool {
        let Some(launch) = Asked::of(program, shape, roots, inputs) else {
            return false;
        };
        let mut kept = self.kept.lock();
        if let Some(answer) = kept.find(&launch.question) {
            return answer.is_proved;
        }
        if !always && !kept.affords() {
            return false;
        }
        let start = Instant::now();
        let (answer, evaluations) = kept.answer(&launch, always);
        let most = OPERATION * (program.operations() as u32 + 10) * evaluations;
        kept.spent += start.elapsed().min(most);
        kept.evaluations = kept.evaluations.saturating_add(evaluations);
        answer
    }

    /// For which values of its inputs a launch is known to be proved, if
    /// nothing else of it changes. `None` if it is not.
    pub fn holds(
        &self,
        program: &Program,
        shape: &LaunchShape,
        roots: &Roots,
        inputs: &[u64],
    ) -> Option<Inputs> {
        let launch = Asked::of(program, shape, roots, inputs)?;
        let kept = self.kept.lock();
        let answer = kept.find(&launch.question)?;
        answer.is_proved.then(|| launch.inputs(answer))
    }
}

/// A launch and what is asked of it.
struct Asked<'a> {
    program: &'a Program,
    shape: &'a LaunchShape,
    roots: &'a Roots,
    question: Question,
    /// What each input is counted from: the buffer of a pointer that is asked
    /// for relative to it.
    origins: SmallVec<[u64; 24]>,
}

impl<'a> Asked<'a> {
    fn of(
        program: &'a Program,
        shape: &'a LaunchShape,
        roots: &'a Roots,
        inputs: &[u64],
    ) -> Option<Asked<'a>> {
        let mut question = Question::from_slice(inputs);
        let mut origins: SmallVec<[u64; 24]> = SmallVec::from_elem(0, question.len());
        question.extend(shape_words(shape));
        for pointer in program.pointers() {
            let bounds = roots
                .iter()
                .find(|root| root.offset == pointer.offset)?
                .bounds;
            let mut base = bounds.base.0;
            if let Some(input) = pointer.relative {
                // What addresses are aligned to stays part of the question.
                base %= BoundedPointer::STEP;
                origins[input] = bounds.base.0 - base;
                question[input] = question[input].wrapping_sub(origins[input]);
            }
            question.extend([base, bounds.size]);
        }
        Some(Asked {
            program,
            shape,
            roots,
            question,
            origins,
        })
    }

    /// Whether all launches between two questions are proved, which differ in
    /// scalars only.
    fn proves(&self, low: &Question, high: &Question) -> bool {
        let bounds = |offset| bounds_of(self.roots, offset);
        self.program
            .proves_all(self.shape, &self.values(low, high), &bounds)
    }

    /// The same, of some of their threads at a time.
    fn proves_in_parts(&self, low: &Question, high: &Question) -> InParts {
        let bounds = |offset| bounds_of(self.roots, offset);
        self.program
            .proves_in_parts(self.shape, &self.values(low, high), &bounds)
    }

    fn values(&self, low: &Question, high: &Question) -> SmallVec<[Values; 24]> {
        let origins = self.origins.iter().enumerate();
        origins
            .map(|(index, origin)| Values {
                low: low[index].wrapping_add(*origin),
                high: high[index].wrapping_add(*origin),
            })
            .collect()
    }

    /// The values of the inputs that an answer covers.
    fn inputs(&self, answer: &Answer) -> Inputs {
        let ranges = answer.low.iter().zip(&answer.high);
        (self.origins.iter().zip(ranges))
            .map(|(origin, (low, high))| (low.wrapping_add(*origin), high.wrapping_add(*origin)))
            .collect()
    }

    /// Whether a word of the question is an input that is no pointer into a
    /// buffer, and the largest value of its sign that it can have.
    fn scalar(&self, index: usize, value: u64) -> Option<u64> {
        let input = self.program.inputs().get(index)?;
        let pointers = self.program.pointers();
        if pointers
            .iter()
            .any(|pointer| pointer.offset == input.offset)
        {
            return None;
        }
        let most = u64::MAX >> (64 - 8 * u32::from(input.bytes));
        Some(if value <= most / 2 { most / 2 } else { most })
    }
}

/// Base and size of what the pointer at an offset of the parameters points into.
fn bounds_of(roots: &Roots, offset: u32) -> Option<(u64, u64)> {
    let root = roots.iter().find(|root| root.offset == offset)?;
    Some((root.bounds.base.0, root.bounds.size))
}

/// What pointers are meant for that lie in no allocation.
#[derive(Debug)]
pub(crate) struct Meant {
    /// All pointers, with the allocations that were found.
    pub roots: Roots,
    /// Whether the launch is proved in bounds with them.
    pub is_proved: bool,
}

/// For pointers that lie in no allocation, nor beside one: the allocations that
/// they are meant for. A program that numbers the elements of an array from `n`
/// passes `p - n`; where its accesses lie, the proof knows. It is an allocation
/// that contains them all, else one that they leave by no more than half its size.
/// `candidates` are the allocations that a pointer may be meant for, of which at
/// most [`CANDIDATES`] are tried. `None` if nothing was found for some pointer.
pub(crate) fn meant(
    program: &Program,
    shape: &LaunchShape,
    roots: &Roots,
    inputs: &[u64],
    candidates: &dyn Fn(&Root) -> Vec<Extent>,
) -> Option<Meant> {
    let mut open: SmallVec<[(usize, Vec<Extent>); 2]> = SmallVec::new();
    for (index, root) in roots.iter().enumerate() {
        let is_used = |pointer: &BoundedPointer| pointer.offset == root.offset;
        if root.bounds.size == 0
            && root.wrong.is_none()
            && program.pointers().iter().any(is_used)
            && let found = candidates(root)
            && !found.is_empty()
        {
            open.push((index, found));
        }
    }
    let proves = |roots: &Roots| program.proves(shape, inputs, &|offset| bounds_of(roots, offset));
    let mut tried = roots.clone();
    for (index, _) in &open {
        tried[*index].bounds = Extent {
            base: DeviceAddress(0),
            size: UNBOUNDED,
        };
    }
    // What cannot be proved without bounds, no bounds make true.
    if open.is_empty() || !proves(&tried) {
        return None;
    }
    let mut found = roots.clone();
    let mut is_proved = true;
    for (index, extents) in open {
        let mut fits = |extent: &Extent| {
            tried[index].bounds = *extent;
            proves(&tried)
        };
        let extents = &extents[..extents.len().min(CANDIDATES)];
        let exact = extents.iter().find(|extent| fits(extent));
        is_proved &= exact.is_some();
        let near = || extents.iter().find(|extent| fits(&with_margin(**extent)));
        found[index].bounds = *exact.or_else(near)?;
    }
    Some(Meant {
        roots: found,
        is_proved,
    })
}

/// An allocation with as much before it and after it as accesses may leave it by.
fn with_margin(extent: Extent) -> Extent {
    let margin = JUST_OUTSIDE.max(extent.size / 2);
    let base = extent.base.0.saturating_sub(margin);
    Extent {
        base: DeviceAddress(base),
        size: (extent.base.0 - base) + extent.size.saturating_add(margin),
    }
}

impl Kept {
    fn find(&self, question: &Question) -> Option<&Answer> {
        self.answers.iter().find(|answer| answer.covers(question))
    }

    /// Whether evaluation has not yet taken more than its share of the time.
    fn affords(&mut self) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.spent < CREDIT
            || self.spent < CHEAP.saturating_mul(self.evaluations)
            || self.spent < CREDIT + since.elapsed() / SHARE
    }

    /// Evaluates the answer and keeps it; how often the program ran, too. `always`: in all
    /// ways.
    fn answer(&mut self, launch: &Asked<'_>, always: bool) -> (bool, u32) {
        let mut evaluations = 0;
        let mut proves = |low: &Question, high: &Question, in_parts: bool| match in_parts {
            true => {
                let found = launch.proves_in_parts(low, high);
                evaluations += found.evaluations;
                found.is_proved
            }
            false => {
                evaluations += 1;
                launch.proves(low, high)
            }
        };
        let question = &launch.question;
        for answer in &mut self.answers {
            if answer.is_proved && answer.widen(launch, &mut proves) {
                return (true, evaluations);
            }
        }
        let mut is_proved = proves(question, question, false);
        let in_parts = !is_proved && (always || self.in_vain < IN_VAIN);
        if in_parts {
            is_proved = proves(question, question, true);
            self.in_vain = match is_proved {
                true => 0,
                false => self.in_vain.saturating_add(1),
            };
        }
        self.keep(Answer {
            low: question.clone(),
            high: question.clone(),
            is_proved,
            in_parts,
            limit: None,
        });
        (is_proved, evaluations)
    }

    fn keep(&mut self, answer: Answer) {
        if self.answers.len() < KEPT {
            self.answers.push(answer);
            return;
        }
        self.answers[self.oldest] = answer;
        self.oldest = (self.oldest + 1) % KEPT;
    }
}

impl Answer {
    fn covers(&self, question: &Question) -> bool {
        self.low.len() == question.len()
            && (self.low.iter().zip(&self.high).zip(question))
                .all(|((low, high), asked)| low <= asked && asked <= high)
    }

    /// Extends the answer to a launch that differs in one scalar, and to
    /// further values of that scalar, if a proof for all of them is found.
    fn widen(
        &mut self,
        launch: &Asked<'_>,
        proves: &mut impl FnMut(&Question, &Question, bool) -> bool,
    ) -> bool {
        let question = &launch.question;
        let outside =
            |&index: &usize| !(self.low[index]..=self.high[index]).contains(&question[index]);
        let mut different = (0..question.len()).filter(outside);
        let (Some(scalar), None) = (different.next(), different.next()) else {
            return false;
        };
        let asked = question[scalar];
        let Some(most) = launch.scalar(scalar, asked) else {
            return false;
        };
        let (low, high) = (self.low[scalar], self.high[scalar]);
        let is_above = asked > high;
        let known = self.limit.filter(|limit| {
            limit.scalar == scalar
                && match is_above {
                    true => limit.value > asked,
                    false => limit.value < asked,
                }
        });
        let span = asked.abs_diff(if is_above { low } else { high });
        let further = match known {
            // Half the way to where it is known to end.
            Some(limit) => limit.value.abs_diff(asked) / 2,
            None => span.saturating_mul(1 << WIDER),
        };
        let end = match is_above {
            true => asked.saturating_add(further).min(most.max(asked)),
            false => asked.saturating_sub(further),
        };
        let mut attempt = |end: u64, this: &mut Answer| {
            let (mut wide_low, mut wide_high) = (this.low.clone(), this.high.clone());
            if is_above {
                wide_high[scalar] = end;
            } else {
                wide_low[scalar] = end;
            }
            let is_proved = proves(&wide_low, &wide_high, this.in_parts);
            if is_proved {
                (this.low, this.high) = (wide_low, wide_high);
            }
            is_proved
        };
        if attempt(end, self) {
            return true;
        }
        self.limit = Some(Limit { scalar, value: end });
        end != asked && attempt(asked, self)
    }
}

#[cfg(test)]
mod tests;
