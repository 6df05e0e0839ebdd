//! A kernel's address arithmetic after analysis: a list of interval
//! operations, each of which uses only results of earlier ones.
//! [`Program::proves`] evaluates the list for one launch.

use super::affine::Special;
use super::interval::Interval;
use super::parts::Part;
use super::recurrence::Recurrence;
use super::relation::Relation;
use super::relative::{self, BoundedPointer};
use super::staying::{Staying, is_steady};
use crate::operation::{Binary, View, Width};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Index of a node.
pub(crate) type NodeId = u32;

/// One operation. `width` is that of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Node {
    /// Every value of a register.
    Full(Width),
    /// Between two numbers.
    Between(i64, i64),
    /// A special register.
    Special(Special),
    /// An input.
    Parameter(u32, Width),
    /// Terms from `first` to `end`, and a constant.
    Sum {
        first: u32,
        end: u32,
        constant: i64,
        width: Width,
    },
    Extend(View, NodeId, Width, Width),
    Binary(Binary, NodeId, NodeId, Width),
    Absolute(NodeId, Width),
    /// The values of the first that are in the relation to some value of the
    /// second.
    Refine(Relation, NodeId, NodeId, Width),
    /// The differences of a member of the first and a member of the second that
    /// are in this relation.
    Distance(Relation, NodeId, NodeId, Width),
    /// The full range if neither operand is empty, else the empty range.
    All(NodeId, NodeId),
    /// The first operand if the second is not empty, else the empty range.
    Where(NodeId, NodeId),
    /// The smallest range that contains both operands.
    Hull(NodeId, NodeId, Width),
    /// The intersection of both operands.
    Both(NodeId, NodeId, Width),
    /// The low bits of something wider.
    Truncate(NodeId, Width),
    /// From zero to the trip count of a loop.
    Trips(Continues),
    /// The compared values for which the loop continues.
    Staying(Continues),
    /// From the first towards zero, by shifts or divisions.
    Shrinks(View, NodeId, Width),
    /// Full if a number that starts in the first and moves by the second, as
    /// often as the third at most, keeps to the numbers of this kind and width;
    /// else empty.
    Steady(View, NodeId, NodeId, NodeId, Width),
    /// The first operand if the second is empty, else the empty range.
    Otherwise(NodeId, NodeId),
    /// The value of the [`Recurrence`] with this number.
    Carried(u32, Width),
}

/// A loop that continues after iteration `k`, counted from 0, where
/// `start + k * step + shift` is in `relation` to `limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Continues {
    pub(crate) relation: Relation,
    pub(crate) start: NodeId,
    pub(crate) shift: NodeId,
    pub(crate) step: NodeId,
    pub(crate) limit: NodeId,
    pub(crate) width: Width,
}

/// The bounds that a check compares an address with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bounds {
    /// The node is an address. The bounds are the base and size of the buffer
    /// that the pointer at this offset of the parameters points into.
    Parameter(u32),
    /// The node is an offset into something of so many bytes.
    Bytes(u64),
    /// The node is an offset into the dynamic shared memory of the launch.
    DynamicShared,
    /// The address was derived from one of several pointers of the parameters,
    /// whose buffers are the bounds.
    Choice,
}

/// One check of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) address: NodeId,
    /// Not empty if the check is reached.
    pub(crate) reached: NodeId,
    pub(crate) low: i64,
    /// Number of the query that it is made for.
    pub(crate) query: u32,
    pub(crate) bytes: u64,
    pub(crate) bounds: Bounds,
    /// So many low bits of this must be zero.
    pub(crate) aligned: (NodeId, u8),
}

impl Check {
    /// The last node that the check depends on.
    fn last(&self) -> NodeId {
        self.address.max(self.reached).max(self.aligned.0)
    }

    /// Whether some thread may make the access, with these values of the nodes.
    fn is_reached(&self, values: &[Interval]) -> bool {
        !values[self.reached as usize].is_empty() && !values[self.address as usize].is_empty()
    }

    /// Whether the check cannot fail, with these values of the nodes.
    pub(super) fn holds(
        &self,
        values: &[Interval],
        shape: &LaunchShape,
        bounds: &dyn Fn(u32) -> Option<(u64, u64)>,
    ) -> bool {
        self.outside(values, shape, bounds) == 0
    }

    /// By how many bytes the accesses may leave their bounds, with these values of the
    /// nodes; much more than any if they may be misaligned, or have no bounds.
    pub(super) fn outside(
        &self,
        values: &[Interval],
        shape: &LaunchShape,
        bounds: &dyn Fn(u32) -> Option<(u64, u64)>,
    ) -> u128 {
        if !self.is_reached(values) {
            return 0;
        }
        let address = values[self.address as usize];
        let (aligned, zeros) = self.aligned;
        if values[aligned as usize].zeros < zeros && !values[aligned as usize].is_empty() {
            return FAR;
        }
        match self.bounds {
            Bounds::Parameter(offset) => {
                let Some((base, size)) = bounds(offset) else {
                    return FAR;
                };
                let address = address.view(View::Unsigned, 64);
                outside(self, address, i128::from(base), i128::from(size))
            }
            Bounds::Bytes(size) => outside_offset(self, address, size),
            Bounds::DynamicShared => outside_offset(self, address, shape.shared.into()),
            // (Made into a check for each pointer.)
            Bounds::Choice => FAR,
        }
    }
}

/// See [`Check::outside`].
const FAR: u128 = 1 << 100;

/// A scalar that a program reads: offset in the parameter block, and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Input {
    /// Bytes from the start of the parameter block.
    pub offset: u32,
    /// 1, 2, 4 or 8.
    pub bytes: u8,
}

/// The values that an input may have, both ends included, as unsigned numbers
/// of the input's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// The smallest.
    pub low: u64,
    /// The largest; not less than `low`.
    pub high: u64,
}

impl Values {
    /// One value.
    pub fn only(bits: u64) -> Values {
        Values {
            low: bits,
            high: bits,
        }
    }
}

/// Decides whether all accesses of a launch are in bounds and aligned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    pub(crate) nodes: Vec<Node>,
    pub(crate) terms: Vec<(NodeId, i64)>,
    pub(crate) inputs: Vec<Input>,
    /// In order of address nodes.
    pub(crate) checks: Vec<Check>,
    /// Operands of these may be later nodes.
    pub(crate) recurrences: Vec<Recurrence>,
    pointers: Vec<BoundedPointer>,
}

/// What one launch says about the queries of a program, by number, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// What keeps [`Program::proves`] from a proof.
    pub failing: Vec<u32>,
    /// No thread makes the access, or one of several that the query is about.
    pub unreached: Vec<u32>,
}

/// The dimensions of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks along each axis.
    pub grid: [u32; 3],
    /// Threads of a block along each axis.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

impl Node {
    /// The same with other operands; those of a sum are not in the node.
    pub(crate) fn with_operands(self, mut to: impl FnMut(NodeId) -> NodeId) -> Node {
        match self {
            Node::Full(_)
            | Node::Between(..)
            | Node::Special(_)
            | Node::Parameter(..)
            | Node::Carried(..)
            | Node::Sum { .. } => self,
            Node::Extend(view, a, from, width) => Node::Extend(view, to(a), from, width),
            Node::Binary(binary, a, b, width) => Node::Binary(binary, to(a), to(b), width),
            Node::Absolute(a, width) => Node::Absolute(to(a), width),
            Node::Refine(relation, a, b, width) => Node::Refine(relation, to(a), to(b), width),
            Node::Distance(relation, a, b, width) => Node::Distance(relation, to(a), to(b), width),
            Node::All(a, b) => Node::All(to(a), to(b)),
            Node::Where(a, b) => Node::Where(to(a), to(b)),
            Node::Hull(a, b, width) => Node::Hull(to(a), to(b), width),
            Node::Both(a, b, width) => Node::Both(to(a), to(b), width),
            Node::Truncate(a, width) => Node::Truncate(to(a), width),
            Node::Trips(continues) => Node::Trips(continues.with_operands(to)),
            Node::Staying(continues) => Node::Staying(continues.with_operands(to)),
            Node::Shrinks(view, a, width) => Node::Shrinks(view, to(a), width),
            Node::Steady(view, start, step, trips, width) => {
                Node::Steady(view, to(start), to(step), to(trips), width)
            }
            Node::Otherwise(a, b) => Node::Otherwise(to(a), to(b)),
        }
    }
}

impl Continues {
    fn with_operands(self, mut to: impl FnMut(NodeId) -> NodeId) -> Continues {
        Continues {
            start: to(self.start),
            shift: to(self.shift),
            step: to(self.step),
            limit: to(self.limit),
            ..self
        }
    }
}

impl Program {
    /// The program without the nodes that no check depends on, and without the
    /// parameters that only those nodes read. A scalar that no address depends
    /// on may then change from launch to launch, and a cached answer still
    /// applies.
    pub(crate) fn without_unused(self) -> Program {
        let mut used = vec![false; self.nodes.len()];
        for check in &self.checks {
            used[check.address as usize] = true;
            used[check.reached as usize] = true;
            used[check.aligned.0 as usize] = true;
        }
        loop {
            self.mark_operands(&mut used);
            // What a loop carries may depend on nodes after it.
            let mut again = false;
            for recurrence in &self.recurrences {
                if used[recurrence.node as usize] {
                    for id in recurrence.operands() {
                        again |= !std::mem::replace(&mut used[id as usize], true);
                    }
                }
            }
            if !again {
                break;
            }
        }
        let mut out = Program::default();
        let mut renamed = vec![0; self.nodes.len()];
        let carried = (self.recurrences.iter()).filter(|one| used[one.node as usize]);
        out.recurrences = carried.cloned().collect();
        for (id, node) in self.nodes.iter().enumerate().filter(|(id, _)| used[*id]) {
            let node = match *node {
                Node::Sum {
                    first,
                    end,
                    constant,
                    width,
                } => {
                    let terms = &self.terms[first as usize..end as usize];
                    let first = out.terms.len() as u32;
                    let new = |&(term, factor): &(NodeId, i64)| (renamed[term as usize], factor);
                    out.terms.extend(terms.iter().map(new));
                    Node::Sum {
                        first,
                        end: out.terms.len() as u32,
                        constant,
                        width,
                    }
                }
                Node::Parameter(input, width) => {
                    let input = self.inputs[input as usize];
                    let at = out.inputs.iter().position(|known| *known == input);
                    let at = at.unwrap_or_else(|| {
                        out.inputs.push(input);
                        out.inputs.len() - 1
                    });
                    Node::Parameter(at as u32, width)
                }
                Node::Carried(_, width) => {
                    let of = |one: &Recurrence| one.node as usize == id;
                    let number = out.recurrences.iter().position(of);
                    Node::Carried(number.unwrap_or(usize::MAX) as u32, width)
                }
                other => other.with_operands(|operand| renamed[operand as usize]),
            };
            renamed[id] = out.nodes.len() as NodeId;
            out.nodes.push(node);
        }
        for recurrence in &mut out.recurrences {
            recurrence.rename(|id| renamed[id as usize]);
        }
        out.checks = self.checks;
        for check in &mut out.checks {
            check.address = renamed[check.address as usize];
            check.reached = renamed[check.reached as usize];
            check.aligned.0 = renamed[check.aligned.0 as usize];
        }
        out.checks.sort_by_key(Check::last);
        out.pointers = relative::pointers(&out);
        out
    }

    /// Marks the operands of marked nodes.
    fn mark_operands(&self, used: &mut [bool]) {
        for id in (0..self.nodes.len()).rev() {
            if !used[id] {
                continue;
            }
            if let Node::Sum { first, end, .. } = self.nodes[id] {
                for (term, _) in &self.terms[first as usize..end as usize] {
                    used[*term as usize] = true;
                }
            }
            self.nodes[id].with_operands(|operand| {
                used[operand as usize] = true;
                operand
            });
        }
    }

    /// The pointer parameters whose buffers the answer depends on.
    pub fn pointers(&self) -> &[BoundedPointer] {
        &self.pointers
    }

    /// The parameters to pass to [`Program::proves`].
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Number of operations, a measure of the cost of evaluation.
    pub fn operations(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no thread of a launch can access anything outside its bounds,
    /// or misaligned.
    /// `inputs` are the parameters' bits; `bounds` gives base and size of the
    /// buffer that the pointer at an offset of the parameters belongs to.
    pub fn proves(
        &self,
        shape: &LaunchShape,
        inputs: &[u64],
        bounds: &dyn Fn(u32) -> Option<(u64, u64)>,
    ) -> bool {
        let inputs: SmallVec<[Values; 24]> =
            inputs.iter().map(|bits| Values::only(*bits)).collect();
        self.proves_all(shape, &inputs, bounds)
    }

    /// As [`Program::proves`], for all launches whose inputs are in the ranges
    /// `inputs`. If it returns `false`, a single launch of them may still be
    /// provable.
    pub fn proves_all(
        &self,
        shape: &LaunchShape,
        inputs: &[Values],
        bounds: &dyn Fn(u32) -> Option<(u64, u64)>,
    ) -> bool {
        let part = Part::whole(shape);
        if !self.recurrences.is_empty() {
            return self.solve(&part, inputs, &mut |values| {
                let mut checks = self.checks.iter();
                checks.all(|check| check.holds(values, shape, bounds))
            });
        }
        let mut values: SmallVec<[Interval; 64]> = SmallVec::new();
        self.checks.iter().all(|check| {
            let needed = check.last() as usize;
            while values.len() <= needed {
                let value = self.evaluate(self.nodes[values.len()], &values, &part, inputs);
                values.push(value);
            }
            check.holds(&values, shape, bounds)
        })
    }

    /// What a launch says about each query that the program decides.
    pub fn judge(
        &self,
        shape: &LaunchShape,
        inputs: &[Values],
        bounds: &dyn Fn(u32) -> Option<(u64, u64)>,
    ) -> Judged {
        let queries_of = |are_meant: &dyn Fn(&Check) -> bool| -> Vec<u32> {
            let meant = self.checks.iter().filter(|check| are_meant(check));
            let mut queries: Vec<u32> = meant.map(|check| check.query).collect();
            queries.sort_unstable();
            queries.dedup();
            queries
        };
        // (Without right assumptions, nothing is known.)
        let mut judged = Judged {
            failing: queries_of(&|_| true),
            unreached: Vec::new(),
        };
        self.solve(&Part::whole(shape), inputs, &mut |values| {
            judged = Judged {
                failing: queries_of(&|check| !check.holds(values, shape, bounds)),
                unreached: queries_of(&|check| !check.is_reached(values)),
            };
            judged.failing.is_empty()
        });
        judged
    }

    pub(super) fn evaluate(
        &self,
        node: Node,
        values: &[Interval],
        part: &Part<'_>,
        inputs: &[Values],
    ) -> Interval {
        let value = |id: NodeId| values[id as usize];
        match node {
            // (The value of a recurrence is not computed from operands.)
            Node::Full(width) | Node::Carried(_, width) => Interval::full(width),
            Node::Between(low, high) => Interval {
                low: i128::from(low),
                high: i128::from(high),
                zeros: 0,
            },
            Node::Special(special) => part.special(special),
            Node::Parameter(input, width) => match inputs.get(input as usize) {
                Some(values) => {
                    Interval::of(i128::from(values.low), i128::from(values.high), width)
                }
                None => Interval::full(width),
            },
            Node::Sum {
                first,
                end,
                constant,
                width,
            } => {
                let terms = &self.terms[first as usize..end as usize];
                let mut sum = Interval {
                    low: i128::from(constant),
                    high: i128::from(constant),
                    zeros: if constant == 0 {
                        width
                    } else {
                        (constant.trailing_zeros() as u8).min(width)
                    },
                };
                for &(node, factor) in terms {
                    let term = value(node);
                    sum = if factor == 1 {
                        sum.add(term, width)
                    } else {
                        sum.add(term.scale(factor, width), width)
                    };
                }
                sum.truncate(width)
            }
            Node::Extend(view, a, from, to) => value(a).extend(view, from, to),
            Node::Binary(made, a, b, width) => binary(made, value(a), value(b), width),
            Node::Absolute(a, width) => value(a).absolute(width),
            Node::Refine(relation, a, limit, width) => {
                value(a).refine(relation, value(limit), width)
            }
            Node::Distance(relation, a, b, width) => value(a).distance(relation, value(b), width),
            Node::All(a, b) => match value(a).is_empty() || value(b).is_empty() {
                true => Interval::EMPTY,
                false => Interval::full(8),
            },
            Node::Where(a, b) => match value(b).is_empty() {
                true => Interval::EMPTY,
                false => value(a),
            },
            Node::Otherwise(a, b) => match value(b).is_empty() {
                true => value(a),
                false => Interval::EMPTY,
            },
            Node::Steady(view, start, step, trips, width) => {
                match is_steady(view, [start, step, trips].map(value), width) {
                    true => Interval::full(8),
                    false => Interval::EMPTY,
                }
            }
            Node::Hull(a, b, width) => value(a).hull(value(b), width),
            Node::Both(a, b, width) => value(a).intersect(value(b), width),
            Node::Truncate(a, width) => value(a).truncate(width),
            Node::Trips(continues) => Staying::of(&continues, value).trips(),
            Node::Staying(continues) => Staying::of(&continues, value).values(),
            Node::Shrinks(view, a, width) => {
                let seen = value(a).view(view, width);
                if seen.is_empty() {
                    return seen;
                }
                Interval {
                    low: seen.low.min(0),
                    high: seen.high.max(0),
                    zeros: 0,
                }
                .settled(width)
            }
        }
    }
}

fn outside(check: &Check, address: Interval, base: i128, size: i128) -> u128 {
    let address = address.rounded();
    let low = address.low + i128::from(check.low);
    let end = address.high + i128::from(check.low) + i128::from(check.bytes);
    let (before, after) = (base - low, end - (base + size));
    before.max(0).unsigned_abs() + after.max(0).unsigned_abs()
}

fn outside_offset(check: &Check, offset: Interval, size: u64) -> u128 {
    outside(check, offset.view(View::Signed, 64), 0, i128::from(size))
}

fn binary(binary: Binary, a: Interval, b: Interval, width: Width) -> Interval {
    match binary {
        Binary::Multiply => a.multiply(b, width),
        Binary::And => a.and(b, width),
        Binary::Or => a.or(b, width),
        Binary::Xor => a.xor(b, width),
        Binary::ShiftLeft => a.shift_left(b, width),
        Binary::ShiftRight(view) => a.shift_right(b, view, width),
        Binary::Divide(view) => a.divide(b, view, width),
        Binary::Remainder(view) => a.remainder(b, view, width),
        Binary::Minimum(view) => a.min(b, view, width),
        Binary::Maximum(view) => a.max(b, view, width),
    }
}
