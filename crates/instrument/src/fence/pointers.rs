//! Pointers that are fenced where they are made, so that accesses need no fence.
//!
//! A *pointer* here is a register whose value is nowhere seen: all that is done
//! with it is to access memory, to add something bounded to it, and to copy it, and
//! what that makes is a pointer, too. So a fence may change the register itself,
//! where it is loaded from a parameter or steps through a loop. What is derived
//! from it by bounded sums needs none: it lands in the partition or in its margins
//! (`model::layout::fence::REACH`), and the access stays as the program wrote it.
//!
//! A program does not notice as long as each fenced pointer lies in the partition.
//! So only pointers are fenced that code dereferences as they are, and those that
//! are parameters of a kernel, which point into the tenant's memory. Others are
//! fenced at each access.
//!
//! A pointer that moves through a loop whose passes are counted ahead (`near`) is fenced
//! before the loop, and not in it: all passes together move it by a way that is known.

use super::bounded::{Bounded, Names, Offsets};
use super::looks::Ways;
use analysis::{Analysis, BlockId};
use model::layout::fence::REACH;
use ptx::table::Role;
use ptx::{Function, Instruction, Mnemonic, OperandKind, Statement, VariableSpace};
use rustc_hash::{FxHashMap, FxHashSet};

/// An access in global memory by a register.
#[derive(Clone, Copy, Debug)]
pub(super) struct GlobalAccess {
    /// Index of the instruction, and of its operand.
    pub(super) place: (usize, usize),
    /// The constant.
    pub(super) offset: i64,
    /// What the address must be a multiple of.
    pub(super) alignment: u32,
}

/// A fence behind an instruction that makes a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anchor<'a> {
    pub(super) register: &'a str,
    /// What it must be a multiple of.
    pub(super) alignment: u32,
    /// Whether it is, whatever it is made of.
    pub(super) is_aligned: bool,
}

/// The pointers of a function.
#[derive(Debug, Default)]
pub(super) struct Pointers<'a> {
    /// What each is, plus an address in the partition.
    pub(super) near: FxHashMap<&'a str, Bounded>,
    /// By the index of the instruction.
    pub(super) anchors: FxHashMap<usize, Anchor<'a>>,
    /// Of those that are fenced before a loop, by the instruction that moves them in it.
    pub(super) moving: FxHashMap<usize, Anchor<'a>>,
    /// What holds in the far copies of loops, where what is added may be large; if there is
    /// anything that moves.
    pub(super) far: Option<Box<Pointers<'a>>>,
    /// Those that get an address of the partition before anything else, because
    /// no instruction that makes them is executed before all that read them.
    pub(super) initial: Vec<&'a str>,
}

/// What is done with a register.
#[derive(Debug, Default)]
struct Mentions<'a> {
    /// Instructions that make it, alone and always.
    made: Vec<usize>,
    /// Instructions that read it.
    read: Vec<usize>,
    /// Pointers that are made from it: which, and what is added.
    derived: Vec<(&'a str, Bounded)>,
    /// Offset and alignment of its accesses.
    accesses: Vec<(i64, u32)>,
    /// Something else is done with it.
    is_seen: bool,
}

/// How often candidates are looked through for those that are none.
const ROUNDS: u32 = 64;

/// The most that forcing the alignment of an access takes from its address.
const CLEARED: i64 = 128;

impl<'a> Pointers<'a> {
    /// Of a function, with its accesses in global memory. `is_other` says which
    /// instructions the pass replaces in another way; `ways`, how far those move a
    /// register that are in a loop whose passes are counted ahead.
    pub(super) fn of(
        analysis: &Analysis<'_, 'a>,
        accesses: &[GlobalAccess],
        is_other: impl Fn(usize) -> bool,
        ways: Ways,
    ) -> Pointers<'a> {
        let mut search = Search::new(analysis, accesses, is_other);
        for _ in 0..ROUNDS {
            search.narrow();
            if let Some(found) = search.moving(&ways) {
                return found;
            }
            let Some(found) = search.place(&Ways::default()) else {
                return Pointers::default();
            };
            match found {
                Ok(pointers) => return pointers,
                Err(illegal) => {
                    for name in illegal {
                        search.mentions.remove(name);
                    }
                }
            }
        }
        Pointers::default()
    }
}

struct Search<'x, 'm, 'a> {
    analysis: &'x Analysis<'m, 'a>,
    offsets: Offsets<'x, 'm, 'a>,
    mentions: FxHashMap<&'a str, Mentions<'a>>,
    /// What operands are at most, either way.
    limits: FxHashMap<(usize, usize), i64>,
}

impl<'x, 'm, 'a> Search<'x, 'm, 'a> {
    fn new(
        analysis: &'x Analysis<'m, 'a>,
        accesses: &[GlobalAccess],
        is_other: impl Fn(usize) -> bool,
    ) -> Self {
        let names = names(analysis.code.function);
        let mut search = Search {
            analysis,
            offsets: Offsets::new(analysis, &names),
            mentions: FxHashMap::default(),
            limits: FxHashMap::default(),
        };
        let by_place: FxHashMap<(usize, usize), &GlobalAccess> = accesses
            .iter()
            .map(|access| (access.place, access))
            .collect();
        for (index, inst) in analysis.code.instructions.iter().enumerate() {
            search.instruction(index, inst.instruction, &names, &by_place, is_other(index));
        }
        search
    }

    /// Notes what an instruction does with registers of 64 bits.
    fn instruction(
        &mut self,
        index: usize,
        instruction: &Instruction<'a>,
        names: &Names,
        accesses: &FxHashMap<(usize, usize), &GlobalAccess>,
        is_other: bool,
    ) {
        let info = ptx::table::classify(instruction);
        let step = self.step(index, instruction);
        let is_known = info.is_some() && !is_other;
        let is_hint = super::refuse::is_hint(instruction);
        for (number, operand) in instruction.operands.iter().enumerate() {
            let role = info
                .as_ref()
                .and_then(|info| info.roles.get(number).copied());
            operand.names(&mut |name| {
                if names.get(name) != Some(&8) {
                    return;
                }
                let mention = self.mentions.entry(name).or_default();
                match (&operand.kind, role) {
                    (OperandKind::Name(_), Some(Role::Destination)) => {
                        let is_plain = is_known
                            && number == 0
                            && instruction.guard.is_none()
                            && instruction.opcode.mnemonic() != Mnemonic::Call;
                        mention.made.push(index);
                        mention.is_seen |= !is_plain;
                    }
                    (OperandKind::Address(_), _) => {
                        mention.read.push(index);
                        match accesses.get(&(index, number)) {
                            Some(access) => {
                                mention.accesses.push((access.offset, access.alignment));
                            }
                            None => mention.is_seen |= !is_hint,
                        }
                    }
                    (_, Some(Role::Source)) if is_known => {
                        mention.read.push(index);
                        match step {
                            Some((from, to, added)) if from == name => {
                                mention.derived.push((to, added));
                            }
                            _ => mention.is_seen = true,
                        }
                    }
                    _ => mention.is_seen = true,
                }
            });
        }
    }

    /// Of an instruction that adds something bounded to a register, or copies it:
    /// the register, the one that it makes, and what is added.
    fn step(
        &self,
        index: usize,
        instruction: &Instruction<'a>,
    ) -> Option<(&'a str, &'a str, Bounded)> {
        use OperandKind::{Integer, Name};
        let operands = &instruction.operands;
        let kinds: Vec<&OperandKind<'a>> = operands.iter().map(|operand| &operand.kind).collect();
        let offset = |number: usize| {
            let known = self.offsets.read(index, number);
            match self.limits.get(&(index, number)) {
                Some(most) => Some(Bounded {
                    least: -most,
                    most: *most,
                    multiple: known.map_or(1, |known| known.multiple),
                }),
                None => known,
            }
        };
        let (from, to, added) = match (instruction.opcode.text, &kinds[..]) {
            ("mov.u64" | "mov.b64" | "mov.s64", [Name(to), Name(from)]) => {
                Some((*from, *to, Bounded::NOTHING))
            }
            ("add.s64", [Name(to), Name(from), Integer(value)]) => {
                Some((*from, *to, Bounded::number(*value)?))
            }
            ("add.s64", [Name(to), Name(a), Name(b)]) => match (offset(1), offset(2)) {
                (None, Some(added)) => Some((*a, *to, added)),
                (Some(added), None) => Some((*b, *to, added)),
                _ => None,
            },
            ("sub.s64", [Name(to), Name(from), Name(_)]) => {
                Some((*from, *to, offset(2)?.negative()))
            }
            ("mad.wide.s32" | "mad.wide.u32", [Name(to), _, _, Name(from)]) => {
                Some((*from, *to, self.offsets.product(index)?))
            }
            _ => None,
        }?;
        let is_once = |from: &str| {
            let same = kinds[1..].iter();
            same.filter(|kind| matches!(kind, Name(name) if *name == from))
                .count()
                == 1
        };
        is_once(from).then_some((from, to, added))
    }

    /// Leaves only pointers: those that are not seen, and make pointers only.
    fn narrow(&mut self) {
        loop {
            let is_pointer = |name: &str| {
                self.mentions
                    .get(name)
                    .is_some_and(|mention| !mention.is_seen && !mention.made.is_empty())
            };
            let wrong: Vec<&str> = self
                .mentions
                .iter()
                .filter(|(name, mention)| {
                    !is_pointer(name) || !mention.derived.iter().all(|(to, _)| is_pointer(to))
                })
                .map(|(name, _)| *name)
                .collect();
            if wrong.is_empty() {
                return;
            }
            for name in wrong {
                self.mentions.remove(name);
            }
        }
    }

    /// What the lowest bits of each pointer must be, so that its accesses are
    /// aligned; without those that lead to no access. `None` if that takes long.
    fn alignments(&self) -> Option<FxHashMap<&'a str, u32>> {
        let mut out: FxHashMap<&'a str, u32> = FxHashMap::default();
        for (name, mention) in &self.mentions {
            let own = mention.accesses.iter();
            let own = own.map(|(offset, alignment)| Bounded::low(*offset).min(*alignment));
            if let Some(least) = own.min() {
                out.insert(name, least);
            }
        }
        for _ in 0..ROUNDS {
            let mut is_changed = false;
            for (name, mention) in &self.mentions {
                let derived = mention.derived.iter();
                let needed =
                    derived.filter_map(|(to, added)| Some((*out.get(to)?).min(added.multiple)));
                let least = needed.chain(out.get(name).copied()).min();
                if least != out.get(name).copied()
                    && let Some(least) = least
                {
                    out.insert(name, least);
                    is_changed = true;
                }
            }
            if !is_changed {
                return Some(out);
            }
        }
        None
    }

    /// What is fenced if some pointers are fenced before the loops that move them. `None`
    /// if there are none of these, or if what is made of them would lead too far.
    fn moving(&mut self, ways: &Ways) -> Option<Pointers<'a>> {
        if ways.moving.is_empty() {
            return None;
        }
        self.limits = ways.limits.clone();
        let found = self.place(ways);
        self.limits.clear();
        let mut found = found?.ok().filter(|found| !found.moving.is_empty())?;
        let unlimited = Ways {
            moving: ways.moving.clone(),
            ..Ways::default()
        };
        let far = self.place(&unlimited)?.ok()?;
        found.initial.extend(far.initial.iter().copied());
        found.initial.sort_unstable();
        found.initial.dedup();
        found.far = Some(Box::new(far));
        Some(found)
    }

    /// Decides which pointers are fenced, and which come from those. `Err`: some
    /// that would be fenced, and may not be. `None` if it takes long.
    /// `ways` are those of the registers that may be fenced before a loop.
    fn place(&self, ways: &Ways) -> Option<Result<Pointers<'a>, Vec<&'a str>>> {
        let alignments = self.alignments()?;
        let mut from: FxHashMap<usize, (&'a str, Bounded)> = FxHashMap::default();
        let mut order: Vec<(&'a str, &Mentions<'a>)> = Vec::new();
        for (name, mention) in &self.mentions {
            if !alignments.contains_key(name) {
                continue;
            }
            order.push((name, mention));
            for index in &mention.read {
                let instruction = self.analysis.code.instructions[*index].instruction;
                if let Some((source, _, added)) = self.step(*index, instruction)
                    && source == *name
                {
                    from.insert(*index, (source, added));
                }
            }
        }
        order.sort_unstable_by_key(|(name, mention)| (mention.made[0], *name));
        let mut out = Pointers::default();
        let mut fenced = Vec::new();
        let mut moving = FxHashSet::default();
        let mut illegal = Vec::new();
        for (name, mention) in order {
            let alignment = alignments[name];
            let fits = |sum: &Bounded| {
                let mut ends = mention.accesses.iter();
                sum.is_within(0) && ends.all(|(offset, _)| sum.is_within(*offset))
            };
            let sum = |index: &usize| {
                let (source, added) = from.get(index)?;
                out.near.get(source)?.plus(*added)
            };
            if let [only] = &mention.made[..]
                && let Some(sum) = sum(only).filter(fits)
            {
                out.near.insert(name, sum);
                continue;
            }
            if mention.accesses.is_empty() && !self.is_parameter(mention) {
                illegal.push(name);
                continue;
            }
            let within = |way: i64| Bounded {
                least: -way,
                most: way,
                multiple: alignment,
            };
            // What moves it, and keeps its alignment.
            let keeps = |link: &usize| {
                let by = from.get(link).map(|(_, by)| by.multiple);
                by.is_some_and(|multiple| multiple >= alignment)
            };
            let is_moving = |index: &&usize| {
                let moving = ways.moving.get(index);
                moving.is_some_and(|(_, links)| links.iter().all(keeps))
            };
            let own = || mention.made.iter().filter(is_moving);
            let way = own().map(|index| ways.moving[index].0).max().unwrap_or(0);
            let mut inside = within(way);
            match fits(&inside) {
                true => moving.extend(own().copied()),
                false => inside = within(0),
            }
            if !fits(&inside) {
                illegal.push(name);
                continue;
            }
            out.near.insert(name, inside);
            fenced.push(name);
        }
        if !illegal.is_empty() {
            return Some(Err(illegal));
        }
        self.drop_unused(&mut fenced, &mut out);
        self.anchors(&from, &fenced, &moving, &mut out);
        Some(Ok(out))
    }

    /// Drops pointers without accesses of which only such are made that have fences
    /// of their own.
    fn drop_unused(&self, fenced: &mut Vec<&'a str>, out: &mut Pointers<'a>) {
        let own: FxHashSet<&str> = fenced.iter().copied().collect();
        let mut used: FxHashSet<&'a str> = FxHashSet::default();
        let mut next: Vec<&'a str> = Vec::new();
        let mut sources: FxHashMap<&'a str, Vec<&'a str>> = FxHashMap::default();
        for name in out.near.keys().copied() {
            let mention = &self.mentions[name];
            if !mention.accesses.is_empty() {
                next.push(name);
            }
            for (to, _) in mention.derived.iter().filter(|(to, _)| !own.contains(to)) {
                sources.entry(to).or_default().push(name);
            }
        }
        while let Some(name) = next.pop() {
            if used.insert(name) {
                next.extend(sources.get(name).into_iter().flatten());
            }
        }
        fenced.retain(|name| used.contains(name));
        out.near.retain(|name, _| used.contains(name));
    }

    /// The fences, and what has to be initialized.
    fn anchors(
        &self,
        from: &FxHashMap<usize, (&'a str, Bounded)>,
        fenced: &[&'a str],
        moving: &FxHashSet<usize>,
        out: &mut Pointers<'a>,
    ) {
        for &register in fenced {
            let near = out.near[register];
            for index in &self.mentions[register].made {
                let sum = from
                    .get(index)
                    .and_then(|(source, added)| out.near.get(source)?.plus(*added));
                let is_aligned = sum.is_some_and(|sum| sum.multiple >= near.multiple);
                let anchor = Anchor {
                    register,
                    alignment: near.multiple,
                    is_aligned,
                };
                match moving.contains(index) {
                    true => out.moving.insert(*index, anchor),
                    false => out.anchors.insert(*index, anchor),
                };
            }
        }
        let names = out.near.keys().copied();
        let late = names.filter(|name| !self.is_made_before(&self.mentions[name]));
        out.initial = late.collect();
        out.initial.sort_unstable();
    }

    /// Whether the first instruction that makes a register is executed before all
    /// that read it.
    fn is_made_before(&self, mention: &Mentions<'a>) -> bool {
        let block = |index: usize| -> BlockId { self.analysis.cfg.block_of[index] };
        let first = mention.made[0];
        mention.read.iter().all(|read| {
            let (above, below) = (block(first), block(*read));
            match above == below {
                true => first < *read,
                false => self.analysis.dominators.dominates(above, below),
            }
        })
    }

    /// Whether a register is a parameter of a kernel, or its address in global
    /// memory.
    fn is_parameter(&self, mention: &Mentions<'a>) -> bool {
        let code = &self.analysis.code;
        let is_one = |index: &usize| {
            let mut index = *index;
            // (A conversion of the address, and at most a copy.)
            for _ in 0..4 {
                let instruction = code.instructions[index].instruction;
                let is_copy = matches!(
                    instruction.opcode.mnemonic(),
                    Mnemonic::Cvta | Mnemonic::Mov
                );
                if instruction.opcode.text == "ld.param.u64"
                    || instruction.opcode.text == "ld.param.b64"
                {
                    return true;
                }
                let references = code.references_of(index).iter();
                let source = references.into_iter().find(|r| r.operand == 1);
                let maker = source.and_then(|r| self.analysis.ssa.made_by(r.value));
                match maker {
                    Some(maker) if is_copy => index = maker,
                    _ => return false,
                }
            }
            false
        };
        code.function.is_entry && mention.made.iter().all(is_one)
    }
}

/// The registers that a function declares outside of all scopes, under names that
/// it declares once: bytes of each.
fn names(function: &Function<'_>) -> Names {
    let parameters = function.parameters.iter().chain(&function.returns);
    let inside = function
        .statements()
        .filter_map(|(depth, statement)| match statement {
            Statement::Variable(variable) => Some((depth, variable)),
            _ => None,
        });
    let all: Vec<_> = parameters
        .map(|variable| (0, variable))
        .chain(inside)
        .collect();
    let mut declared: FxHashMap<&str, u32> = FxHashMap::default();
    for (_, variable) in &all {
        *declared.entry(variable.name).or_default() += 1;
    }
    // 0 for a name that may be another register somewhere.
    let mut names = Names::default();
    for (depth, variable) in all {
        let is_right = depth == 0 && declared[variable.name] == 1;
        let is_register = variable.space == VariableSpace::Reg;
        let bytes = if is_right && is_register {
            variable.ty.bytes()
        } else {
            0
        };
        let mut add = |name: String| {
            let known = names.entry(name);
            known.and_modify(|bytes| *bytes = 0).or_insert(bytes);
        };
        match variable.range {
            Some(count) => (0..count).for_each(|number| add(format!("{}{number}", variable.name))),
            None => add(variable.name.to_owned()),
        }
    }
    names
}

impl Bounded {
    /// Whether an access at this offset of a pointer stays in reach, also where low bits
    /// are cleared in between.
    fn is_within(&self, offset: i64) -> bool {
        let reach = REACH as i64 - CLEARED;
        let is_near = |end: i64| {
            let at = end.checked_add(offset);
            at.is_some_and(|at| -reach <= at && at <= reach)
        };
        is_near(self.least) && is_near(self.most)
    }
}
