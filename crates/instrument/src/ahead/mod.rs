//! Loops whose accesses can be checked before they begin: cuCatch's hoisting of
//! checks out of loops and coalescing of those of all passes (section 5.2), at run
//! time.
//!
//! A loop that goes on while a register, which changes by the same amount in each
//! pass, is below, above or not yet at a bound that does not change, has a number of
//! passes that a few instructions before it compute. An address that moves by the
//! same amount in each pass is inside in all of them if it is in the first and in the
//! last. So the loop has a *quick copy*, in which such accesses have no checks:
//!
//! ```text
//!     $__rf_ahead7:                  // 7: number of the first instruction
//!        passes - 1, or go to slow where there are few
//!        of each check: the first address and the last
//!        @slow bra $__rf_slow7
//!     $__rf_quick7: body             // unchecked
//!        @p bra $__rf_quick7
//!        bra $__rf_out7
//!     $__rf_slow7:
//! L:     body                        // checked
//!        @p bra L
//!     $__rf_out7:
//! ```
//!
//! A loop that may be left elsewhere, or an access that some passes do not make, is no
//! different: what is checked is at least what is accessed, and where that is not all
//! inside, the checked loop decides.
//!
//! The pass and the verifier both use this module: what the loops are, and the text
//! that computes passes and addresses ([`Ahead`]), is believed; tests compare both with
//! what loops do. That each access without a check is among those that were compared,
//! with its bytes and its bounds, is verified of the text.

mod passes;
mod values;

pub(crate) use passes::{Read, read};
pub(crate) use values::{Ahead, Value};

use crate::protocol::LABEL_PREFIX;
use analysis::{Analysis, BlockId, Loops, ValueId};
use model::layout::shadow::Encoding;
use ptx::table::Convergence;
use ptx::{Block, Label, Mnemonic, OperandKind, Statement};

/// The least passes of a loop that is worth it, if its accesses are compared with bounds.
const LEAST: u64 = 4;

/// And if it takes a lookup before the loop to find them.
const LEAST_OF_LOOKUPS: u64 = 16;

/// What a lookup finds is no buffer if it has more bytes: then nothing is known of the
/// address.
pub(crate) const LARGEST_BUFFER: u64 = 1 << 46;

/// The most instructions of a loop that has a copy.
const LARGEST: usize = 400;

/// The blocks of a loop, which follow each other: the first, and the last, which goes back.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    header: BlockId,
    latch: BlockId,
}

impl Blocks {
    fn has(self, block: BlockId) -> bool {
        (self.header..=self.latch).contains(&block)
    }

    /// Whether the loop makes a value.
    fn make(self, analysis: &Analysis<'_, '_>, value: ValueId) -> bool {
        let known = analysis.ssa.value(value);
        known.is_some_and(|known| self.has(known.block))
    }
}

/// A loop that can have a quick copy: blocks that follow each other in the text, the
/// first of which is the only way in, and the last of which is the only one that goes
/// back.
#[derive(Clone, Debug)]
pub(crate) struct Counted<'a> {
    blocks: Blocks,
    /// Its first instruction, and its last: the branch back.
    pub(crate) first: usize,
    pub(crate) branch: usize,
    /// The labels before its first instruction, and those inside.
    pub(crate) before: Vec<Label<'a>>,
    pub(crate) inside: Vec<Label<'a>>,
    /// The least passes that the quick copy is worth.
    least: u64,
    counter: passes::Counter,
}

impl<'a> Counted<'a> {
    /// The loops of a function, in text order; the quick copy is for at least so many
    /// passes.
    pub(crate) fn all(analysis: &Analysis<'_, 'a>, least: u64) -> Vec<Counted<'a>> {
        let loops = Loops::of(&analysis.cfg, &analysis.dominators);
        if loops.loops.is_empty() {
            return Vec::new();
        }
        let mut labels = Vec::new();
        if let Some(body) = &analysis.code.function.body {
            list_labels(body, &mut labels);
        }
        let is_innermost = |own: usize| !loops.loops.iter().any(|other| other.parent == Some(own));
        let inner = loops.loops.iter().enumerate();
        let inner = inner.filter(|(number, _)| is_innermost(*number));
        let mut all: Vec<Counted<'a>> = inner
            .filter_map(|(_, natural)| Self::of(analysis, &natural.blocks, &labels, least))
            .collect();
        all.sort_by_key(|counted| counted.first);
        all
    }

    fn of(
        analysis: &Analysis<'_, 'a>,
        blocks: &[BlockId],
        labels: &[Label<'a>],
        least: u64,
    ) -> Option<Counted<'a>> {
        let (code, cfg) = (&analysis.code, &analysis.cfg);
        let (header, latch) = (*blocks.first()?, *blocks.last()?);
        if blocks.len() != (latch.0 - header.0) as usize + 1 {
            return None;
        }
        let of = |block: BlockId| &cfg.blocks[block.0 as usize];
        let (first, end) = (of(header).first as usize, of(latch).end as usize);
        let branch = end.checked_sub(1).filter(|branch| *branch > first)?;
        let predecessors = || of(header).predecessors.iter();
        let falls_in = predecessors().any(|from| from.0 + 1 == header.0);
        let is_only = predecessors()
            .filter(|from| blocks.contains(from))
            .eq([&latch]);
        if !falls_in || !is_only || end - first > LARGEST {
            return None;
        }
        let back = code.instructions[branch].instruction;
        let goes_back = back.opcode.mnemonic() == Mnemonic::Bra
            && back.guard.is_some()
            && target_of(analysis, branch) == Some(first);
        let is_plain = (first..branch).all(|index| is_plain(analysis, index));
        if !goes_back || !is_plain {
            return None;
        }
        let start = match first.checked_sub(1) {
            Some(before) => code.instructions[before].instruction.span.end,
            None => 0,
        };
        let spans = (
            code.instructions[first].attached_from,
            code.instructions[branch].instruction.span.start,
        );
        let between = |from: u32, to: u32| {
            let own = labels
                .iter()
                .filter(move |label| (from..to).contains(&label.span.start));
            own.copied().collect::<Vec<_>>()
        };
        let blocks = Blocks { header, latch };
        let counter = passes::Counter::of(analysis, blocks, branch)?;
        Some(Counted {
            blocks,
            first,
            branch,
            before: between(start, spans.0),
            inside: between(spans.0, spans.1),
            least,
            counter,
        })
        .filter(|counted| !counted.before.is_empty())
    }

    /// Whether an instruction is in the loop.
    pub(crate) fn holds(&self, index: usize) -> bool {
        (self.first..=self.branch).contains(&index)
    }

    /// A label of the loop's own: `what` is `ahead`, `quick`, `slow` or `out`.
    pub(crate) fn label(&self, what: &str) -> String {
        label(what, self.first)
    }

    /// The name in the quick copy of a label that stands inside the loop, or before it.
    pub(crate) fn in_copy(&self, name: &str) -> Option<String> {
        let is = |labels: &[Label<'_>]| labels.iter().any(|label| label.name == name);
        match (is(&self.before), is(&self.inside)) {
            (true, _) => Some(self.label("quick")),
            (_, true) => Some(format!(
                "{}_{}",
                self.label("quick"),
                name.trim_start_matches('$')
            )),
            _ => None,
        }
    }
}

/// The least passes that a quick copy is worth: without shadow memory, or with it.
pub(crate) fn least_passes(shadow: Option<Encoding>) -> u64 {
    match shadow {
        None => LEAST,
        Some(_) => LEAST_OF_LOOKUPS,
    }
}

/// A label of a loop's own, by its first instruction.
pub(crate) fn label(what: &str, first: impl std::fmt::Display) -> String {
    format!("{LABEL_PREFIX}{what}{first}")
}

/// The instruction that a branch goes to.
fn target_of(analysis: &Analysis<'_, '_>, branch: usize) -> Option<usize> {
    let instruction = analysis.code.instructions[branch].instruction;
    match instruction.operands.as_slice() {
        [target] => match target.kind {
            OperandKind::Name(name) => Some(analysis.code.label(branch, name)? as usize),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an instruction may stand in two copies: in either lanes go their own way, and
/// nothing leaves the function or waits.
fn is_plain(analysis: &Analysis<'_, '_>, index: usize) -> bool {
    let instruction = analysis.code.instructions[index].instruction;
    match instruction.opcode.mnemonic() {
        Mnemonic::Bra => target_of(analysis, index).is_some(),
        Mnemonic::Call
        | Mnemonic::Brx
        | Mnemonic::Ret
        | Mnemonic::Exit
        | Mnemonic::Trap
        | Mnemonic::Alloca => false,
        _ => {
            let info = ptx::table::classify(instruction);
            info.is_some_and(|info| info.convergence == Convergence::None)
        }
    }
}

/// All labels of a body, in text order.
fn list_labels<'a>(body: &Block<'a>, into: &mut Vec<Label<'a>>) {
    for statement in &body.statements {
        match statement {
            Statement::Label(label) => into.push(*label),
            Statement::Block(inner) => list_labels(inner, into),
            _ => {}
        }
    }
}
