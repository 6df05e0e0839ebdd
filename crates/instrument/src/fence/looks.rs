//! Where threads look whether the host wants them to end, and the text of looks.
//!
//! A *look* loads the word of `model::layout::fence::stop` and retires the thread
//! where it is set, out of line. Loops have a *counted look* at the head: a counter, an
//! `and` and a predicate at each pass, the load at one in [`MOST_PASSES`].
//!
//! * Loops whose passes can be counted ahead do not look as long as they are few
//!   (`near`). All others do.
//! * A load at each pass would make each pass wait for the second-level cache.
//!   By one in 1,024, all multiprocessors together ask the line of the word for
//!   far less than it delivers.
//! * A loop whose every pass goes through an inner loop's head has no look of
//!   its own.
//! * A loop whose body is long loads more often, so that the bound on what a
//!   thread still executes stays small.
//! * Where functions look as they begin is decided for the whole module: only
//!   where a tree of calls would be too large without.
//! * A kernel looks as it begins if the host has said that grids may have many blocks.
//!   Most have not, and need no load.

use super::FenceForm;
use super::near::{self, Near};
use super::refuse::Refusals;
use super::shared::pieces;
use crate::patch::{Patch, line, put};
use analysis::{BlockId, Cfg, Code, ModuleSymbols};
use model::layout::fence::{STOP, VARIABLE, stop};
use ptx::table::Convergence;
use ptx::{Function, Mnemonic, Modifier, Module};
use rustc_hash::{FxHashMap, FxHashSet};

/// Passes of a loop between two loads of the word, at most.
const MOST_PASSES: u64 = 1024;
/// Steps between two loads in one activation of a kernel; of a function.
const FAR: [u64; 2] = [1 << 22, 1 << 16];
/// Steps of all loops without a look: where no others are around them, and else.
const NEAR: [u64; 2] = [1 << 20, 1 << 17];
/// Steps that an address is fenced in, at most: in global memory, by form; in shared
/// memory, or a variable; and one that may be in any.
const GLOBAL: [u64; 3] = [6, 10, 24];
const INSIDE: u64 = 14;
const GENERIC: u64 = 48;
/// Steps that are added to an instruction in which threads meet, or leave.
const OTHER: u64 = 3;
/// Steps of counting passes ahead, at most; and of counting one in a far copy.
const COUNTING: u64 = 12;
/// Steps before a loop for a pointer that moves in it, at most.
const ENTERING: u64 = 16;
const COUNTED: u64 = 3;
/// Steps of a look.
const LOOK: u64 = 8;
/// Steps before the program's own, apart from what clears frames and registers.
const HEAD: u64 = 128;
/// Steps in which one thread would clear all shared memory.
const CLEARING: u64 = 6 * (256 << 10) / 16;

/// The looks of one function.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    /// Instructions before which one is counted.
    pub(super) before: FxHashSet<usize>,
    /// Loops whose passes are counted ahead, by their first instruction.
    pub(super) near: FxHashMap<usize, Near>,
    /// The first instruction of each by its branch back.
    branches: FxHashMap<usize, usize>,
    /// Passes between two that load; 0 if there are none.
    pub(super) passes: u64,
    /// Whether some may do without a load, so that the word must be set before.
    pub(super) may_skip: bool,
    /// Whether there is one at the head.
    pub(super) at_head: bool,
}

impl Looks {
    /// Writes what comes before an instruction, which begins at a place.
    pub(super) fn write(&self, index: usize, at: u32, patch: &mut Patch) {
        if self.before.contains(&index) {
            patch.insert(at, |out| counted(self.passes, out));
        }
    }

    /// What is known of registers in loops whose passes are counted ahead.
    pub(super) fn ways(&self, code: &Code<'_, '_>) -> Ways {
        let mut ways = Ways::default();
        for (first, near) in &self.near {
            for moving in &near.moving.pointers {
                let links = moving.links.clone();
                ways.moving.insert(moving.update, (moving.way, links));
            }
            for at in *first..near.branch {
                let operands = &code.instructions[at].instruction.operands;
                for (number, operand) in operands.iter().enumerate().skip(1) {
                    let ptx::OperandKind::Name(own) = operand.kind else {
                        continue;
                    };
                    if near.moving.limited.iter().any(|name| name == own) {
                        ways.limits.insert((at, number), near.moving.limit);
                    }
                }
            }
        }
        ways
    }

    /// The loop that a branch goes back in, if its passes are counted ahead.
    pub(super) fn back(&self, index: usize) -> Option<&Near> {
        self.near.get(self.branches.get(&index)?)
    }

    /// Loops with looks.
    pub(super) fn loops(&self) -> u64 {
        (self.before.len() + self.near.len()) as u64
    }

    /// Whether there is any.
    pub(super) fn are_there(&self) -> bool {
        self.may_skip || self.at_head || !self.near.is_empty()
    }
}

/// How far loops whose passes are counted ahead move registers.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways {
    /// By the instruction that makes the register: the way, and the additions that lead
    /// there.
    pub(super) moving: FxHashMap<usize, (i64, Vec<usize>)>,
    /// Operands that are at most this, either way; by instruction and number.
    pub(super) limits: FxHashMap<(usize, usize), i64>,
}

/// What a function is for the decision.
struct Known<'m, 'a> {
    function: &'m Function<'a>,
    form: FenceForm,
    code: Code<'m, 'a>,
    cfg: Cfg,
    /// Heads of loops that look.
    heads: FxHashSet<BlockId>,
    /// Loops whose passes are counted ahead, by their only block.
    near: FxHashMap<BlockId, Near>,
    /// Steps of the head.
    head: u64,
}

/// Decides where the functions of a module look.
pub(super) fn plan<'a>(
    module: &Module<'a>,
    symbols: &ModuleSymbols<'a>,
    form: FenceForm,
    refusals: &mut Refusals<'_>,
) -> FxHashMap<&'a str, Looks> {
    let functions = module.functions();
    let known: FxHashMap<&str, Known<'_, 'a>> = functions
        .filter_map(|function| Some((function.name, Known::of(symbols, function, form)?)))
        .collect();
    let order = callees_first(module, &known);
    let mut looking: FxHashSet<&'a str> = FxHashSet::default();
    loop {
        let mut looks = FxHashMap::default();
        let mut steps: FxHashMap<&'a str, u64> = FxHashMap::default();
        let mut too_long = None;
        for name in &order {
            let of = &known[name];
            let (mut found, bound) = of.looks(&steps, &looking);
            found.at_head = looking.contains(name);
            if bound > stop::STEPS && too_long.is_none() {
                too_long = Some(of);
            }
            // (A callee that looks where it begins does not come back.)
            let cost = match found.at_head {
                true => of.head.saturating_add(LOOK),
                false => bound,
            };
            steps.insert(*name, cost);
            looks.insert(*name, found);
        }
        let Some(of) = too_long else {
            return looks;
        };
        let costs = of.callees().filter(|callee| !looking.contains(callee));
        let costs = costs.filter_map(|callee| Some((*steps.get(callee)?, callee)));
        match costs.max() {
            Some((_, callee)) => {
                looking.insert(callee);
            }
            None => {
                refusals.enter(Some(of.function.name));
                let reason = "it is too long to be ended in time";
                refusals.add(of.function.name_span, reason);
                refusals.enter(None);
                return looks;
            }
        }
    }
}

impl<'m, 'a> Known<'m, 'a> {
    fn of(
        symbols: &ModuleSymbols<'a>,
        function: &'m Function<'a>,
        form: FenceForm,
    ) -> Option<Self> {
        let code = Code::of(symbols, function)?;
        let cfg = Cfg::of(&code);
        let heads = heads(&cfg);
        let statements = function.statements();
        let bytes = statements.filter_map(|(_, statement)| match statement {
            ptx::Statement::Variable(v) if v.space == ptx::VariableSpace::Local => v.size(),
            _ => None,
        });
        let frames: u64 = bytes.fold(0, |sum, size| sum.saturating_add(6 * size.min(1 << 20)));
        let registers = u64::from(code.registers());
        let clearing = if function.is_entry { CLEARING } else { 0 };
        let mut known = Known {
            function,
            form,
            head: HEAD + registers + frames + clearing,
            code,
            cfg,
            heads,
            near: FxHashMap::default(),
        };
        // (In other functions there is no room for the steps of such a loop.)
        if function.is_entry {
            known.near = known.near();
            let alone: FxHashSet<BlockId> = known.near.keys().copied().collect();
            known.heads = search(&known.cfg, &alone).0;
        }
        Some(known)
    }

    /// The loops whose passes are counted ahead.
    fn near(&self) -> FxHashMap<BlockId, Near> {
        let is_own = |block: &BlockId| {
            let successors = &self.cfg.blocks[block.0 as usize].successors;
            successors.contains(block)
        };
        let order = self.cfg.order.iter().copied();
        let alone: FxHashSet<BlockId> = order.clone().filter(is_own).collect();
        if alone.is_empty() {
            return FxHashMap::default();
        }
        let (others, _) = search(&self.cfg, &alone);
        let most = NEAR[usize::from(!others.is_empty())] / alone.len() as u64;
        let pieces = pieces(self.function.body.as_ref());
        let near = |block: BlockId| {
            let bounds = (self.pass(block), most);
            let found = Near::of(&self.code, &self.cfg, block, &pieces, bounds)?;
            Some((block, found))
        };
        order.filter(is_own).filter_map(near).collect()
    }

    /// Steps of a block.
    fn pass(&self, block: BlockId) -> u64 {
        let body = self.cfg.instructions(block);
        body.map(|at| own_steps(self.code.instructions[at].instruction, self.form))
            .sum()
    }

    fn callees(&self) -> impl Iterator<Item = &'a str> + '_ {
        let instructions = self.code.instructions.iter();
        instructions.filter_map(|inst| Some(inst.instruction.called_function()?.1))
    }

    /// The looks of the function, and how many steps a thread may still take in
    /// it once it must end.
    fn looks(&self, steps: &FxHashMap<&'a str, u64>, looking: &FxHashSet<&'a str>) -> (Looks, u64) {
        let longest = self.longest(steps, looking).saturating_add(LOOK);
        let mut passes = 0;
        if !self.heads.is_empty() {
            let far = FAR[usize::from(!self.function.is_entry)];
            passes = (far / longest).clamp(1, MOST_PASSES);
            passes = 1 << passes.ilog2();
        }
        let bound = longest.saturating_mul(passes + 1).saturating_add(self.head);
        let first = |block: &BlockId| self.cfg.blocks[block.0 as usize].first as usize;
        let mut instructions = self.code.instructions.iter();
        let near = self.near.iter();
        let looks = Looks {
            before: self.heads.iter().map(first).collect(),
            branches: near
                .clone()
                .map(|(block, near)| (near.branch, first(block)))
                .collect(),
            near: near
                .map(|(block, near)| (first(block), near.clone()))
                .collect(),
            passes,
            may_skip: passes > 0 || instructions.any(|inst| sleeps(inst.instruction)),
            at_head: false,
        };
        (looks, bound)
    }

    /// The most steps between two looks.
    fn longest(&self, steps: &FxHashMap<&'a str, u64>, looking: &FxHashSet<&'a str>) -> u64 {
        let mut longest = vec![0u64; self.cfg.blocks.len()];
        let mut most = 0;
        for block in postorder(&self.cfg, &self.heads) {
            let successors = &self.cfg.blocks[block.0 as usize].successors;
            let onward = successors.iter().filter(|to| !self.heads.contains(to));
            let mut sum = onward.map(|to| longest[to.0 as usize]).max().unwrap_or(0);
            for index in self.cfg.instructions(block).rev() {
                let instruction = self.code.instructions[index].instruction;
                let callee = instruction.called_function().map(|(_, name)| name);
                let inside = callee.and_then(|callee| steps.get(callee)).copied();
                let ends = callee.is_some_and(|callee| looking.contains(callee));
                if ends && instruction.guard.is_none() {
                    sum = 0;
                }
                let own = own_steps(instruction, self.form).saturating_add(inside.unwrap_or(0));
                sum = sum.saturating_add(own);
            }
            if let Some(near) = self.near.get(&block) {
                // (The far copy, and then the loop itself.)
                let pass = 2 * self.pass(block) + COUNTED;
                let both = near.passes.saturating_mul(pass);
                let before = COUNTING
                    + ENTERING * (near.moving.pointers.len() + near.moving.limited.len()) as u64;
                sum = sum.saturating_add(both).saturating_add(before);
            }
            longest[block.0 as usize] = sum;
            most = most.max(sum);
        }
        most
    }
}

/// Steps of an instruction of the program with its fences, without those of a
/// callee.
fn own_steps(instruction: &ptx::Instruction<'_>, form: FenceForm) -> u64 {
    let opcode = &instruction.opcode;
    let global = GLOBAL[form as usize];
    let inside = [
        Modifier::Shared,
        Modifier::Param,
        Modifier::Const,
        Modifier::Local,
    ];
    let access = match (opcode.has(Modifier::Global), opcode.has_any(&inside)) {
        (true, false) => global,
        (false, true) => INSIDE,
        _ => GENERIC,
    };
    // (What makes a pointer has a fence behind it.)
    let is_wide = opcode.types().any(|kind| kind.bytes() == 8) || opcode.has(Modifier::Wide);
    let pointer = if is_wide { global } else { 0 };
    let info = ptx::table::classify(instruction);
    let is_plain =
        info.is_some_and(|info| info.convergence == Convergence::None && !info.is_control);
    let other = if is_plain { 0 } else { OTHER };
    let accesses = instruction.addresses().count() as u64;
    1 + other + pointer + access * accesses
}

/// Steps of the search for heads, at most, times the blocks and edges of a function.
/// Real code takes as many as its loops are deep.
const SEARCH: usize = 64;

/// Blocks without which no cycle is left; inner loops come first, so that outer
/// ones need one only for passes that go around the inner ones.
fn heads(cfg: &Cfg) -> FxHashSet<BlockId> {
    search(cfg, &FxHashSet::default()).0
}

/// The heads, and how many steps it took to find them.
///
/// A block `alone` needs none for going around itself.
///
/// Each cycle has a block that is first in the order, and an edge of the cycle leads
/// back to it. So a block that an edge leads back to becomes a head, if a cycle goes
/// through it and blocks behind it, and through no head. Where that takes too long, all
/// of the rest become heads.
fn search(cfg: &Cfg, alone: &FxHashSet<BlockId>) -> (FxHashSet<BlockId>, usize) {
    let place = |block: BlockId| cfg.position[block.0 as usize];
    let is_left_out = |from: BlockId, to: BlockId| from == to && alone.contains(&to);
    let mut candidates: Vec<BlockId> = Vec::new();
    let mut edges = 0;
    for &block in &cfg.order {
        for &to in &cfg.blocks[block.0 as usize].successors {
            edges += 1;
            if place(to) <= place(block) && !is_left_out(block, to) {
                candidates.push(to);
            }
        }
    }
    candidates.sort_unstable_by_key(|block| std::cmp::Reverse(place(*block)));
    candidates.dedup();
    let most = SEARCH * (cfg.blocks.len() + edges);
    let mut steps = 0;
    let mut heads = FxHashSet::default();
    // The candidate for which each block was seen last.
    let mut seen: Vec<Option<BlockId>> = vec![None; cfg.blocks.len()];
    for head in candidates {
        let mut stack = vec![head];
        while let Some(block) = stack.pop() {
            for &to in &cfg.blocks[block.0 as usize].successors {
                steps += 1;
                if is_left_out(block, to) {
                    continue;
                }
                if to == head || steps > most {
                    heads.insert(head);
                    stack.clear();
                    break;
                }
                let is_new = seen[to.0 as usize].replace(head) != Some(head);
                if is_new && place(to) > place(head) && !heads.contains(&to) {
                    stack.push(to);
                }
            }
        }
    }
    (heads, steps)
}

/// Blocks, each behind those that follow it without a head between them.
fn postorder(cfg: &Cfg, heads: &FxHashSet<BlockId>) -> Vec<BlockId> {
    let mut out = Vec::with_capacity(cfg.order.len());
    let mut seen = vec![false; cfg.blocks.len()];
    for &root in &cfg.order {
        let mut stack = vec![(root, 0)];
        while let Some((block, next)) = stack.pop() {
            if next == 0 && std::mem::replace(&mut seen[block.0 as usize], true) {
                continue;
            }
            match cfg.blocks[block.0 as usize].successors.get(next) {
                Some(to) => {
                    stack.push((block, next + 1));
                    if !heads.contains(to) {
                        stack.push((*to, 0));
                    }
                }
                None => out.push(block),
            }
        }
    }
    out
}

/// The functions that are among these, or from which calls lead to one of them.
pub(super) fn reaching<'a>(module: &Module<'a>, those: &FxHashSet<&'a str>) -> FxHashSet<&'a str> {
    let mut callers: FxHashMap<&str, Vec<&'a str>> = FxHashMap::default();
    for function in module.functions() {
        let calls = function.instructions();
        for (_, callee) in calls.filter_map(|instruction| instruction.called_function()) {
            callers.entry(callee).or_default().push(function.name);
        }
    }
    let mut found = those.clone();
    let mut next: Vec<&str> = those.iter().copied().collect();
    while let Some(callee) = next.pop() {
        for caller in callers.get(callee).into_iter().flatten() {
            if found.insert(*caller) {
                next.push(caller);
            }
        }
    }
    found
}

fn callees_first<'a>(module: &Module<'a>, known: &FxHashMap<&str, Known<'_, 'a>>) -> Vec<&'a str> {
    let mut order = Vec::with_capacity(known.len());
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    for root in module.functions() {
        let mut stack = vec![(root.name, false)];
        while let Some((name, is_done)) = stack.pop() {
            let Some(of) = known.get(name) else {
                continue;
            };
            if is_done {
                order.push(name);
            } else if seen.insert(name) {
                stack.push((name, true));
                stack.extend(of.callees().map(|callee| (callee, false)));
            }
        }
    }
    order
}

/// Whether a thread may sleep in an instruction, so that a look follows it.
pub(super) fn sleeps(instruction: &ptx::Instruction<'_>) -> bool {
    let opcode = &instruction.opcode;
    opcode.mnemonic() == Mnemonic::Nanosleep || opcode.has(Modifier::TryWait)
}

/// Registers of looks, and what they are before the first one. (The head of a
/// kernel sets the word itself.)
pub(super) fn head(looks: &Looks, is_entry: bool, out: &mut String) {
    line!(out, ".reg .b64 %__rf_stop, %__rf_at;");
    line!(
        out,
        ".reg .b32 %__rf_word, %__rf_passes, %__rf_phase, %__rf_left;"
    );
    line!(out, ".reg .pred %__rf_due, %__rf_halt;");
    line!(out, "ld.const.b64 %__rf_stop, [{VARIABLE}+{STOP}];");
    if looks.may_skip && !is_entry {
        line!(out, "mov.u32 %__rf_word, 0;");
    }
    if looks.passes > 0 {
        line!(out, "mov.u32 %__rf_passes, 0;");
    }
    if !looks.near.is_empty() {
        near::head(out);
    }
}

/// A look, with a load under a guard: text with a blank, or nothing.
pub(super) fn look(guard: &str, out: &mut String) {
    line!(
        out,
        "{guard}ld.volatile.global.u32 %__rf_word, [%__rf_stop];"
    );
    line!(out, "setp.ne.s32 %__rf_halt, %__rf_word, 0;");
    retire(out);
}

/// Retires the thread, if it must end.
pub(super) fn retire(out: &mut String) {
    line!(out, "@%__rf_halt bra $__rf_retire;");
}

/// Where threads retire, out of line: it counts them.
pub(super) fn retired(out: &mut String) {
    crate::patch::put(out, format_args!("\n$__rf_retire:\n\t"));
    line!(out, "red.global.add.u64 [%__rf_stop+{}], 1;", stop::RETIRED);
    line!(out, "exit;");
}

/// A counted look.
fn counted(passes: u64, out: &mut String) {
    line!(out, "add.s32 %__rf_passes, %__rf_passes, 1;");
    line!(
        out,
        "and.b32 %__rf_phase, %__rf_passes, {};",
        passes.saturating_sub(1)
    );
    line!(out, "setp.eq.s32 %__rf_due, %__rf_phase, 0;");
    look("@%__rf_due ", out);
}

/// A look behind an instruction in which a thread slept; not where its wait has
/// succeeded.
pub(super) fn after(instruction: &ptx::Instruction<'_>, out: &mut String) {
    let done = match instruction.operands.first().map(|operand| &operand.kind) {
        Some(ptx::OperandKind::Name(done)) if instruction.opcode.has(Modifier::TryWait) => *done,
        _ => "",
    };
    out.push_str("\n\t");
    match done {
        "" => look("", out),
        done => {
            let mut guard = String::new();
            put(&mut guard, format_args!("@!{done} "));
            look(&guard, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heads of a kernel of these statements, and the steps that it took.
    fn heads_of(statements: &str) -> (FxHashSet<BlockId>, usize, Cfg) {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.entry k() {{ .reg .pred %p; .reg .b32 %r;\n{statements}\nret; }}\n"
        );
        let module = ptx::parse(&text).unwrap();
        let symbols = ModuleSymbols::of(&module);
        let function = module.functions().next().unwrap();
        let code = Code::of(&symbols, function).unwrap();
        let cfg = Cfg::of(&code);
        let (heads, steps) = search(&cfg, &FxHashSet::default());
        (heads, steps, cfg)
    }

    /// Whether each cycle has a head.
    fn are_complete(heads: &FxHashSet<BlockId>, cfg: &Cfg) -> bool {
        let mut before = vec![0; cfg.blocks.len()];
        let all = || cfg.order.iter().filter(|block| !heads.contains(block));
        for to in all().flat_map(|block| &cfg.blocks[block.0 as usize].successors) {
            before[to.0 as usize] += 1;
        }
        let mut ready: Vec<BlockId> = all()
            .filter(|block| before[block.0 as usize] == 0)
            .copied()
            .collect();
        let mut done = 0;
        while let Some(block) = ready.pop() {
            done += 1;
            for &to in &cfg.blocks[block.0 as usize].successors {
                before[to.0 as usize] -= 1;
                if before[to.0 as usize] == 0 && !heads.contains(&to) {
                    ready.push(to);
                }
            }
        }
        done == all().count()
    }

    #[test]
    fn heads_are_found_in_proportion_to_the_text() {
        type Line = fn(usize, usize) -> String;
        let shapes: [(&str, Line); 3] = [
            ("any", |at, of| {
                format!("L{at}: @%p bra L{};\n", at * 7919 % of)
            }),
            ("backwards", |at, _| {
                format!("L{at}: @%p bra L{};\n", at / 2)
            }),
            ("each around the next", |at, of| match at < of / 2 {
                true => format!("L{at}: add.s32 %r, %r, 1;\n"),
                false => format!("@%p bra L{};\n", of - 1 - at),
            }),
        ];
        for (what, line) in shapes {
            const LINES: usize = 20_000;
            let text: String = (0..LINES).map(|at| line(at, LINES)).collect();
            let (heads, steps, cfg) = heads_of(&text);
            assert!(are_complete(&heads, &cfg), "{what}");
            // Each line has two edges and a block.
            assert!(steps <= SEARCH * 4 * LINES, "{what}: {steps}");
        }
    }

    #[test]
    fn only_loops_that_go_around_others_have_heads_of_their_own() {
        let count = |statements: &str| heads_of(statements).0.len();
        assert_eq!(count("O: add.s32 %r, %r, 1; I: @%p bra I; @%p bra O;"), 1);
        assert_eq!(
            count("O: add.s32 %r, %r, 1; @%p bra N; I: @%p bra I; N: @%p bra O;"),
            2
        );
        assert_eq!(
            count("@%p bra N; add.s32 %r, %r, 1; N: add.s32 %r, %r, 2;"),
            0
        );
    }
}
