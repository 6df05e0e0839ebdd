//! Proofs of a launch in parts. Intervals do not say how values depend on each other: in
//! `for (i = tid; i < n; i += 256)`, of which a compiler counts the passes ahead, the last
//! index is below `n` for each thread, but the largest `tid` and the largest count are not
//! those of one thread. What is not proved of all threads at once may be proved of some of
//! them, and then of the others, where fewer values meet.
//!
//! All that a program says is about one thread, so that a launch is proved if it is in
//! parts that contain all its threads. A part is split in two as long as that brings each
//! access nearer to its bounds, which decides how often proofs are found, never whether
//! they are right.

use super::affine::Special;
use super::interval::Interval;
use super::program::{LaunchShape, Node, Program, Values};
use smallvec::SmallVec;

/// Operations that may be evaluated for one launch: less than a millisecond.
const MOST_OPERATIONS: usize = 25_000;

/// Evaluations of a program with recurrences count for so many.
const ROUNDS: usize = 4;

/// Numbers of threads, and of blocks, by axis.
const AXES: usize = 6;

/// Some of the threads of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub(super) shape: &'a LaunchShape,
    /// First and last of the threads' numbers in their block, then of the blocks'.
    axes: [(u32, u32); AXES],
}

/// Whether a launch is proved in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InParts {
    /// Whether it is.
    pub is_proved: bool,
    /// How often the program was evaluated.
    pub evaluations: u32,
}

/// The number of an axis.
fn axis_of(special: Special) -> Option<usize> {
    match special {
        Special::Thread(axis) => Some(axis.into()),
        Special::Block(axis) => Some(3 + usize::from(axis)),
        Special::Threads(_) | Special::Blocks(_) | Special::Lane => None,
    }
}

impl<'a> Part<'a> {
    /// All threads.
    pub(super) fn whole(shape: &'a LaunchShape) -> Part<'a> {
        let mut axes = [(0, 0); AXES];
        let counts = shape.block.iter().chain(&shape.grid);
        for (axis, count) in axes.iter_mut().zip(counts) {
            axis.1 = (*count).max(1) - 1;
        }
        Part { shape, axes }
    }

    /// The values of a special register.
    pub(super) fn special(&self, special: Special) -> Interval {
        let between = |(first, last): (u32, u32)| match first == last {
            true => Interval::point(first.into(), 32),
            false => Interval {
                low: first.into(),
                high: last.into(),
                zeros: 0,
            },
        };
        let exactly = |count: u32| Interval::point(count.into(), 32);
        match special {
            Special::Thread(_) | Special::Block(_) => {
                axis_of(special).map_or(Interval::full(32), |axis| between(self.axes[axis]))
            }
            Special::Threads(axis) => exactly(self.shape.block[usize::from(axis)]),
            Special::Blocks(axis) => exactly(self.shape.grid[usize::from(axis)]),
            Special::Lane => between((0, 31)),
        }
    }

    fn halves(&self, axis: usize) -> Option<[Part<'a>; 2]> {
        let (first, last) = self.axes[axis];
        let middle = first + (last.checked_sub(first)?) / 2;
        let (mut low, mut high) = (*self, *self);
        low.axes[axis].1 = middle;
        high.axes[axis].0 = middle + 1;
        (first < last).then_some([low, high])
    }
}

/// How far each access of a part may be outside its bounds.
type Outside = SmallVec<[u128; 32]>;

/// A part, with what is known of it.
struct Judged<'a> {
    part: Part<'a>,
    outside: Outside,
}

impl Judged<'_> {
    fn sum(&self) -> u128 {
        let mut sum: u128 = 0;
        for outside in &self.outside {
            sum = sum.saturating_add(*outside);
        }
        sum
    }
}

struct Search<'a> {
    program: &'a Program,
    inputs: &'a [Values],
    bounds: &'a dyn Fn(u32) -> Option<(u64, u64)>,
    /// Axes that the program knows of.
    axes: SmallVec<[usize; AXES]>,
    /// The only query that is asked, if it is one.
    query: Option<u32>,
    evaluations: u32,
    most: u32,
}

impl<'a> Search<'a> {
    fn of(
        program: &'a Program,
        inputs: &'a [Values],
        bounds: &'a dyn Fn(u32) -> Option<(u64, u64)>,
    ) -> Search<'a> {
        let is_used = |axis: &usize| {
            let mut nodes = program.nodes.iter();
            nodes.any(|node| matches!(node, Node::Special(own) if axis_of(*own) == Some(*axis)))
        };
        let rounds = match program.recurrences.is_empty() {
            true => 1,
            false => ROUNDS,
        };
        Search {
            program,
            inputs,
            bounds,
            axes: (0..AXES).filter(is_used).collect(),
            query: None,
            evaluations: 0,
            most: (MOST_OPERATIONS / program.operations().max(1) / rounds) as u32,
        }
    }

    fn answer(&mut self, shape: &'a LaunchShape) -> InParts {
        let whole = self.judge(Part::whole(shape));
        InParts {
            is_proved: self.proves(&whole),
            evaluations: self.evaluations,
        }
    }

    fn judge(&mut self, part: Part<'a>) -> Judged<'a> {
        self.evaluations += 1;
        let program = self.program;
        // (Without right assumptions, nothing is known.)
        let mut outside = SmallVec::from_elem(u128::MAX, program.checks.len());
        program.solve(&part, self.inputs, &mut |values| {
            for (check, outside) in program.checks.iter().zip(&mut outside) {
                *outside = match self.query {
                    Some(query) if query != check.query => 0,
                    _ => check.outside(values, part.shape, self.bounds),
                };
            }
            outside.iter().all(|outside| *outside == 0)
        });
        Judged { part, outside }
    }

    /// Whether a part is proved, alone or in parts of its own.
    fn proves(&mut self, judged: &Judged<'a>) -> bool {
        let sum = judged.sum();
        if sum == 0 {
            return true;
        }
        let mut is_nearer: SmallVec<[bool; 32]> =
            judged.outside.iter().map(|outside| *outside == 0).collect();
        let mut best: Option<(u128, [Judged<'a>; 2])> = None;
        for axis in self.axes.clone() {
            let Some(halves) = judged.part.halves(axis) else {
                continue;
            };
            if self.evaluations + 2 > self.most {
                return false;
            }
            let halves = halves.map(|half| self.judge(half));
            for half in &halves {
                let both = half.outside.iter().zip(&judged.outside);
                for ((own, whole), is) in both.zip(&mut is_nearer) {
                    *is |= nearer(*own, *whole);
                }
            }
            let own = halves[0].sum().saturating_add(halves[1].sum());
            if best.as_ref().is_none_or(|(best, _)| own < *best) {
                best = Some((own, halves));
            }
            if own == 0 {
                return true;
            }
        }
        // An access that is about as far outside in both halves, whichever these are, will
        // be so in all parts.
        let is_hopeful = is_nearer.iter().all(|is| *is);
        best.filter(|(own, _)| is_hopeful && *own < sum.saturating_mul(2))
            .is_some_and(|(_, halves)| halves.iter().all(|half| self.proves(half)))
    }
}

/// Whether an access is much nearer to its bounds in a half.
fn nearer(half: u128, whole: u128) -> bool {
    half <= whole - whole / 4
}

impl Program {
    /// As [`Program::proves_all`], for each of some parts of the launches where they are not
    /// proved as a whole.
    pub fn proves_in_parts(
        &self,
        shape: &LaunchShape,
        inputs: &[Values],
        bounds: &dyn Fn(u32) -> Option<(u64, u64)>,
    ) -> InParts {
        Search::of(self, inputs, bounds).answer(shape)
    }

    /// The same of one of the program's queries, by number, with so many evaluations at most.
    pub fn proves_query_in_parts(
        &self,
        (query, most): (u32, u32),
        shape: &LaunchShape,
        inputs: &[Values],
        bounds: &dyn Fn(u32) -> Option<(u64, u64)>,
    ) -> InParts {
        let mut search = Search::of(self, inputs, bounds);
        search.query = Some(query);
        search.most = search.most.min(most);
        search.answer(shape)
    }
}
