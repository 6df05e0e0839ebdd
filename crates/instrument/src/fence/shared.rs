//! Accesses in shared memory that have one fence together.
//!
//! In a piece of code that is executed from its beginning to its end, all
//! accesses by one register and a constant are executed if one is. So one fence
//! for the bytes from the first to the last of them does not change a program
//! that stays in its block's shared memory, and keeps any other one there. A
//! product of matrices in tiles, unrolled, has two fences in place of a hundred.
//!
//! A block that has fewer bytes than that would end its kernel. The host launches none
//! that has fewer than [`ROOM`] (`model::layout::fence`). Where a fence is wider, the
//! threads of such a block retire before it, so that the accesses need no guards: the
//! registers that they load would keep what they held under a guard that does not hold,
//! and so be alive all the time.
//!
//! Where the first address is known to be more aligned than the accesses need, the mask
//! of the fence keeps that alignment, and ptxas merges loads of neighbours into one.

use super::looks;
use super::rewrite::{Body, Fence, Rewrite, SharedBase};
use super::text::Accessed;
use analysis::LowBits;
use model::layout::fence::ROOM;
use ptx::table::Role;
use ptx::{Block, Instruction, Mnemonic, OperandKind, Statement};
use rustc_hash::FxHashMap;

/// Accesses with a fence in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Its number among those of the function.
    pub(super) number: usize,
    /// The constant of the access that has the least one.
    pub(super) least: i64,
    /// Bytes from there to the end of the last one.
    pub(super) bytes: u64,
    /// What the first address is a multiple of in every program whose accesses are aligned.
    pub(super) alignment: u32,
    /// Index of the instruction that comes first.
    pub(super) first: usize,
}

/// The groups of a function.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// By instruction; it has one access in a group.
    of: FxHashMap<usize, (usize, Group)>,
    /// By the instruction that is the first with a group in a piece of code that
    /// is executed from its beginning to its end: bytes that one of its groups
    /// needs, at most.
    rooms: FxHashMap<usize, u64>,
    /// How many there are.
    pub(super) count: usize,
}

/// Bytes that a group spans at most: what a block can have (CUDA C++ Programming
/// Guide, table of compute capabilities), and then some.
const MOST: i64 = 256 << 10;

/// An access that may be one of a group.
#[derive(Clone, Copy)]
struct Member {
    index: usize,
    operand: usize,
    offset: i64,
    bytes: i64,
    alignment: u32,
    /// Of the register that it goes by.
    low: LowBits,
}

/// The most bytes that one instruction loads: ptxas merges as many.
pub(super) const WIDEST: u32 = 16;

impl Member {
    /// What the address at this distance from the register is a multiple of, as far as that
    /// helps ptxas to load several at once.
    fn multiple(&self, offset: i64) -> u32 {
        let is_multiple = |of: &u32| {
            let rest = self.low.modulo((*of).into());
            let rest = rest.filter(|_| self.low.parameter.is_none());
            rest.is_some_and(|rest| (offset + rest as i64).rem_euclid((*of).into()) == 0)
        };
        let powers = std::iter::successors(Some(WIDEST), |power| Some(power / 2));
        powers
            .take_while(|power| *power > 1)
            .find(is_multiple)
            .unwrap_or(1)
    }
}

impl Groups {
    /// The group of an access.
    pub(super) fn get(&self, index: usize, operand: usize) -> Option<&Group> {
        let (of, group) = self.of.get(&index)?;
        (*of == operand).then_some(group)
    }

    /// Whether an access of this instruction is in a group.
    pub(super) fn holds(&self, index: usize) -> bool {
        self.of.contains_key(&index)
    }

    /// Bytes that the block must have before this instruction, if it must have more
    /// than each block has.
    pub(super) fn room(&self, index: usize) -> Option<u64> {
        let bytes = self.rooms.get(&index).copied();
        bytes.filter(|bytes| *bytes > ROOM)
    }

    /// Adds a group of these, or one of each where there cannot be one.
    fn close(&mut self, members: &[Member]) {
        let least = members.iter().map(|member| member.offset).min();
        let end = members.iter().map(|member| member.offset + member.bytes);
        let (Some(first), Some(least), Some(end)) = (members.first(), least, end.max()) else {
            return;
        };
        // Then the first address is aligned as each of them needs it wherever
        // the program's addresses are.
        let is_aligned = |m: &Member| (m.offset - least) % i64::from(m.alignment) == 0;
        if end - least > MOST || !members.iter().all(is_aligned) {
            return members.chunks(1).for_each(|one| self.close(one));
        }
        let group = Group {
            number: self.count,
            least,
            bytes: (end - least) as u64,
            alignment: members
                .iter()
                .map(|m| m.alignment)
                .fold(first.multiple(least), u32::max),
            first: first.index,
        };
        self.count += 1;
        let places = members.iter().map(|m| (m.index, (m.operand, group)));
        self.of.extend(places);
    }

    /// Ends a piece of code, whose groups are those from this number on.
    fn end_piece(&mut self, from: usize, indices: std::ops::Range<usize>) {
        let groups = indices.filter_map(|index| self.of.get(&index).map(|(_, group)| *group));
        let mut first = None;
        let mut bytes = 0;
        for group in groups.filter(|group| group.number >= from) {
            first.get_or_insert(group.first);
            bytes = bytes.max(group.bytes);
        }
        if let Some(first) = first {
            self.rooms.insert(first, bytes);
        }
    }
}

impl<'a> Rewrite<'_, '_, 'a> {
    /// The groups of a function.
    pub(super) fn groups(&self, body: &Body<'_, '_, 'a>) -> Groups {
        let code = &body.analysis.code;
        let mut groups = Groups::default();
        let mut open: FxHashMap<&str, Vec<Member>> = FxHashMap::default();
        let pieces = pieces(code.function.body.as_ref());
        let looks = self.looks.get(code.function.name);
        let mut piece = None;
        let mut start = (0, 0);
        for (index, inst) in code.instructions.iter().enumerate() {
            let instruction = inst.instruction;
            let own = pieces.get(index);
            let is_look = looks.is_some_and(|looks| looks.before.contains(&index));
            if own != piece || is_look || !goes_on(instruction) {
                close_all(&mut groups, &mut open, &mut start, index);
                piece = own;
            }
            if let Some((base, member)) = self.member(body, index, instruction) {
                let members = open.entry(base).or_default();
                let is_far = |other: &Member| (other.offset - member.offset).abs() > MOST / 2;
                if members.iter().any(is_far) {
                    groups.close(members);
                    members.clear();
                }
                members.push(member);
            }
            for name in written(instruction) {
                if let Some(members) = open.remove(name) {
                    groups.close(&members);
                }
            }
            if looks::sleeps(instruction) {
                close_all(&mut groups, &mut open, &mut start, index + 1);
            }
        }
        let end = code.instructions.len();
        close_all(&mut groups, &mut open, &mut start, end);
        groups
    }

    /// An access that may be one of a group, and the register that it goes by.
    fn member(
        &self,
        body: &Body<'_, '_, 'a>,
        index: usize,
        instruction: &Instruction<'a>,
    ) -> Option<(&'a str, Member)> {
        if instruction.guard.is_some() {
            return None;
        }
        let info = ptx::table::classify(instruction)?;
        let mut found = None;
        for (number, access) in info.accesses.iter().enumerate() {
            let OperandKind::Address(address) = &instruction.operands.get(access.operand)?.kind
            else {
                return None;
            };
            let bytes = super::rewrite::bytes_of(body, index, instruction, access).ok()?;
            let accessed = Accessed {
                number,
                bytes,
                has_span: false,
                alignment: access.alignment,
                may_be_local: false,
            };
            let fence = self.fence_of(body, index, access, address, (accessed, &info));
            let Ok(Fence::Shared(SharedBase::Narrow | SharedBase::Wide)) = fence else {
                continue;
            };
            // The room of an instruction is that of one fence.
            if found.is_some() {
                return None;
            }
            let base = address.base.filter(|base| body.has_register(base))?;
            let member = Member {
                index,
                operand: access.operand,
                offset: address.offset,
                bytes: i64::try_from(bytes).ok()?,
                alignment: access.alignment.max(1),
                low: body.analysis.low_bits(index as u32, access.operand),
            };
            let is_near = member.offset.abs() <= MOST && member.bytes <= MOST;
            found = Some((base, member)).filter(|_| is_near);
            found?;
        }
        found
    }
}

/// Ends a piece of code before the instruction `index`; `start` is the number of
/// its first group, and its first instruction.
fn close_all(
    groups: &mut Groups,
    open: &mut FxHashMap<&str, Vec<Member>>,
    start: &mut (usize, usize),
    index: usize,
) {
    // In the order of the text, so that the output is always the same.
    let mut all: Vec<Vec<Member>> = open.drain().map(|(_, members)| members).collect();
    all.sort_by_key(|members| members.first().map(|member| member.index));
    for members in all {
        groups.close(&members);
    }
    groups.end_piece(start.0, start.1..index);
    *start = (groups.count, index);
}

/// Whether each thread that executes it executes what follows, too.
fn goes_on(instruction: &Instruction<'_>) -> bool {
    use Mnemonic as M;
    !matches!(
        instruction.opcode.mnemonic(),
        M::Bra | M::Brx | M::Call | M::Ret | M::Exit | M::Trap
    )
}

/// The registers that an instruction writes.
pub(super) fn written<'a>(instruction: &Instruction<'a>) -> Vec<&'a str> {
    let mut out = Vec::new();
    let info = ptx::table::classify(instruction);
    for (number, operand) in instruction.operands.iter().enumerate() {
        let role = info.as_ref().and_then(|info| info.roles.get(number));
        if role.is_none_or(|role| matches!(role, Role::Destination | Role::Both)) {
            operand.names(&mut |name| out.push(name));
        }
    }
    out
}

/// For each instruction, a number that those have in common between which there is
/// no label and no brace: behind either, names may mean something else, and the
/// verifier takes nothing for known.
pub(super) fn pieces(body: Option<&Block<'_>>) -> Vec<u32> {
    let mut out = Vec::new();
    if let Some(body) = body {
        walk(body, &mut 0, &mut out);
    }
    out
}

fn walk(block: &Block<'_>, piece: &mut u32, out: &mut Vec<u32>) {
    for statement in &block.statements {
        match statement {
            Statement::Instruction(_) => out.push(*piece),
            Statement::Label(_) => *piece += 1,
            Statement::Block(inner) => {
                *piece += 1;
                walk(inner, piece, out);
                *piece += 1;
            }
            _ => {}
        }
    }
}
