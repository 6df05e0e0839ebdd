//! Whether a program that was read from bytes is one: evaluating one that is not
//! would look for nodes that there are not.

use super::affine::Special;
use super::program::{Check, Node, NodeId, Program};
use super::recurrence::Recurrence;
use super::trips::COUNT;

impl Program {
    /// Whether each node uses only nodes before it, recurrences and checks only nodes
    /// that there are, and all else that is numbered is there, too. Programs of the
    /// analysis are.
    pub fn is_well_formed(&self) -> bool {
        let nodes = self.nodes.len();
        let is_node = |id: NodeId| (id as usize) < nodes;
        let recurrence = |one: &Recurrence| {
            is_width(one.width) && is_node(one.node) && one.operands().all(is_node)
        };
        let check = |check: &Check| {
            is_node(check.address) && is_node(check.reached) && is_node(check.aligned.0)
        };
        let inputs = self.inputs.len();
        let mut pointers = self.pointers().iter();
        self.nodes.len() < u32::MAX as usize
            && (self.nodes.iter().enumerate()).all(|(at, node)| self.is_node(at, *node))
            && self.recurrences.iter().all(recurrence)
            && self.checks.iter().all(check)
            && self
                .inputs
                .iter()
                .all(|input| matches!(input.bytes, 1 | 2 | 4 | 8))
            && pointers.all(|pointer| pointer.relative.is_none_or(|input| input < inputs))
    }

    /// Whether the node at this place is one.
    fn is_node(&self, at: usize, node: Node) -> bool {
        let mut operands_are_before = true;
        node.with_operands(|operand| {
            operands_are_before &= (operand as usize) < at;
            operand
        });
        operands_are_before
            && match node {
                Node::Full(width) | Node::Carried(_, width) => is_width(width),
                Node::Between(low, high) => low <= high,
                Node::Special(special) => match special {
                    Special::Thread(axis)
                    | Special::Threads(axis)
                    | Special::Block(axis)
                    | Special::Blocks(axis) => axis < 3,
                    Special::Lane => true,
                },
                Node::Parameter(input, width) => {
                    (input as usize) < self.inputs.len() && is_width(width)
                }
                Node::Sum {
                    first, end, width, ..
                } => {
                    let terms = self.terms.get(first as usize..end as usize);
                    is_width(width)
                        && terms.is_some_and(|terms| {
                            terms.iter().all(|(term, _)| (*term as usize) < at)
                        })
                }
                Node::Extend(_, _, from, to) => is_width(from) && is_width(to),
                Node::Binary(_, _, _, width)
                | Node::Absolute(_, width)
                | Node::Refine(_, _, _, width)
                | Node::Distance(_, _, _, width)
                | Node::Hull(_, _, width)
                | Node::Both(_, _, width)
                | Node::Truncate(_, width)
                | Node::Shrinks(_, _, width)
                | Node::Steady(_, _, _, _, width) => is_width(width),
                Node::All(..) | Node::Where(..) | Node::Otherwise(..) => true,
                Node::Trips(continues) | Node::Staying(continues) => is_width(continues.width),
            }
    }
}

/// Whether registers are so wide, or counts of trips are.
fn is_width(width: u8) -> bool {
    (1..=64).contains(&width) || width == COUNT
}
