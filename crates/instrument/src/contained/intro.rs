//! What a body does before the program's own code: it prepares looks at the word
//! that ends kernels, looks, and clears memory.
//!
//! The head of a body is the code that each thread executes once, in the order
//! of the text: it ends with the first label, branch or call that is not part
//! of a known sequence ([`super::idiom`]), and no branch leads back into it.

use super::counted;
use super::flow::Flow;
use super::idiom::{self, Idiom};
use ptx::table::Space;
use ptx::{Mnemonic, OperandKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// The head of a body.
#[derive(Default)]
pub(super) struct Intro<'a> {
    /// One past its last instruction.
    pub(super) end: usize,
    /// The thread looked at the word, whatever its launch is.
    pub(super) looks: bool,
    /// It looked where grids may be large.
    pub(super) looks_if_large: bool,
    /// Shared memory is zero.
    pub(super) clears: bool,
    /// The known sequences in it: the first instruction of each, and one past its last.
    pub(super) sequences: Vec<(usize, usize)>,
    /// Steps of loops that clear frames.
    pub(super) cleared_steps: u64,
    /// Bytes of local variables that are written, before anything can read them:
    /// the first of each piece, and one past its last.
    frames: FxHashMap<&'a str, Vec<(u64, u64)>>,
    /// It is too late to clear shared memory.
    is_late: bool,
}

/// Reads the head of a body.
pub(super) fn read<'a>(flow: &Flow<'_, 'a>, source: &str) -> Intro<'a> {
    let mut intro = Intro::default();
    let mut written = true;
    let mut at = 0;
    while let Some(step) = flow.steps.get(at) {
        if let Some((found, length)) = idiom::at(flow, at, source) {
            match found {
                // (Threads that retire here leave their part as it was: from now
                // on the others cannot clear all of shared memory.)
                Idiom::Look => (intro.looks, intro.is_late) = (true, true),
                Idiom::Entry { clears } => {
                    intro.looks_if_large = true;
                    intro.clears |= clears && !intro.is_late;
                    intro.is_late = true;
                }
                Idiom::Frame { name, bytes } if written => {
                    cover(&mut intro.frames, name, 0, bytes);
                    intro.cleared_steps += 5 * bytes;
                }
                Idiom::Frame { .. }
                | Idiom::Counted(_)
                | Idiom::Retired
                | Idiom::LookUnless(_)
                | Idiom::Limit(_)
                | Idiom::Again(_) => break,
            }
            intro.sequences.push((at, at + length));
            at += length;
            continue;
        }
        let info = ptx::table::classify(step.instruction);
        let Some(info) = info.filter(|info| !step.has_label && !info.is_control) else {
            break;
        };
        for access in &info.accesses {
            match access.space {
                Space::Const | Space::Param | Space::Global => {}
                Space::Local if written => written = stores(flow, at, &mut intro.frames),
                Space::Generic => (written, intro.is_late) = (false, true),
                _ => intro.is_late = true,
            }
        }
        at += 1;
    }
    intro.end = at;
    intro
}

/// Takes in a store to a local variable at a constant place; false for anything
/// else that accesses local memory.
fn stores<'a>(
    flow: &Flow<'_, 'a>,
    at: usize,
    frames: &mut FxHashMap<&'a str, Vec<(u64, u64)>>,
) -> bool {
    let instruction = flow.steps[at].instruction;
    if instruction.opcode.mnemonic() != Mnemonic::St || instruction.guard.is_some() {
        return false;
    }
    let Some((_, address)) = instruction.address_operand() else {
        return false;
    };
    let Some(name) = address
        .base
        .filter(|name| flow.register(at, name).is_none())
    else {
        return false;
    };
    let info = ptx::table::classify(instruction);
    let extent =
        info.and_then(|info| ptx::table::extent(instruction, info.accesses.first()?, false));
    match (u64::try_from(address.offset), extent) {
        (Ok(offset), Some(ptx::table::Extent::Bytes(bytes))) => {
            cover(frames, name, offset, bytes);
            true
        }
        _ => false,
    }
}

fn cover<'a>(
    frames: &mut FxHashMap<&'a str, Vec<(u64, u64)>>,
    name: &'a str,
    from: u64,
    bytes: u64,
) {
    let to = from.saturating_add(bytes);
    frames.entry(name).or_default().push((from, to));
}

impl Intro<'_> {
    /// Whether all bytes of a local variable are written.
    pub(super) fn covers(&self, name: &str, size: u64) -> bool {
        let mut pieces = self.frames.get(name).cloned().unwrap_or_default();
        pieces.sort_unstable();
        let mut end = 0;
        for (from, to) in pieces {
            if from > end {
                break;
            }
            end = end.max(to);
        }
        end >= size
    }
}

/// What of a body is known before its instructions are judged, by where they begin
/// in the text.
#[derive(Default)]
pub(super) struct Sequences<'a> {
    /// The instructions of known sequences: what they access is known.
    pub(super) exempt: FxHashSet<u32>,
    /// The first instruction behind the head of the body. (What stands before is
    /// executed once, in the order of the text, apart from loops of known
    /// sequences.)
    pub(super) head_end: u32,
    /// Where loops are entered whose passes are counted, with the registers that they
    /// move: by the branch before each.
    pub(super) entries: FxHashMap<u32, Vec<Moving<'a>>>,
    /// Registers that are within a limit, either way, all through such a loop: by its first
    /// instruction.
    pub(super) limits: FxHashMap<u32, Vec<(&'a str, i64)>>,
}

/// A register that is moved in a loop whose passes are counted.
pub(super) struct Moving<'a> {
    /// Where the instruction begins that does.
    pub(super) at: u32,
    pub(super) register: &'a str,
    /// How far all passes move it, either way, at most.
    pub(super) way: i64,
}

/// The known sequences of a body, and its head.
pub(super) fn sequences<'a>(flow: &Flow<'_, 'a>, intro: &Intro<'_>, source: &str) -> Sequences<'a> {
    let first = flow.steps.get(intro.end);
    let begins = |at: usize| flow.steps[at].instruction.span.start;
    let entry = |found: &counted::Counted<'a>| {
        let moved = found.moved(flow, source).into_iter();
        let moving = moved.map(|moved| Moving {
            at: begins(moved.at),
            register: moved.register,
            way: moved.way,
        });
        (begins(found.first - 1), moving.collect())
    };
    let loops = counted::loops(flow, intro.end, source);
    Sequences {
        entries: loops.iter().map(entry).collect(),
        limits: loops
            .iter()
            .map(|found| (begins(found.first), found.limits(flow, source)))
            .collect(),
        exempt: exempt(flow, intro, source),
        head_end: first.map_or(u32::MAX, |step| step.instruction.span.start),
    }
}

fn exempt(flow: &Flow<'_, '_>, intro: &Intro<'_>, source: &str) -> FxHashSet<u32> {
    let mut out = FxHashSet::default();
    let mut at = 0;
    while at < flow.steps.len() {
        let length = match idiom::at(flow, at, source) {
            Some((Idiom::Entry { .. } | Idiom::Frame { .. }, _)) if at >= intro.end => 0,
            Some((_, length)) => length,
            None => 0,
        };
        for step in &flow.steps[at..at + length] {
            out.insert(step.instruction.span.start);
        }
        at += length.max(1);
    }
    out
}

/// Whether an operand of an instruction is a register of that name.
pub(super) fn names(kind: &OperandKind<'_>, name: &str) -> bool {
    matches!(kind, OperandKind::Name(found) if *found == name)
}
