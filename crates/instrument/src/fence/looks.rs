//! Where threads look whether the host wants them to end, and the text of looks.
//!
//! A *look* loads the word of `model::layout::fence::stop` and retires the thread
//! where it is set. Loops have a *counted look* at the head: a counter, an `and`
//! and a predicate at each pass, the load at one in [`MOST_PASSES`]. Nothing
//! branches, so that the compiler keeps the loop in one piece.
//!
//! * All loops look, also those whose number of passes is in the text: compilers
//!   unroll small ones, and the verifier need not follow counters.
//! * A load at each pass would make each pass wait for the second-level cache.
//!   By one in 1,024, all multiprocessors together ask the line of the word for
//!   far less than it delivers.
//! * A loop whose every pass goes through an inner loop's head has no look of
//!   its own.
//! * A loop whose body is long loads more often, so that the bound on what a
//!   thread still executes stays small.
//! * Where functions look as they begin is decided for the whole module: only
//!   where a tree of calls would be too large without.
//! * A kernel looks as it begins if its grid has many blocks. Most grids do not,
//!   and need no load.

use super::refuse::Refusals;
use super::shared::pieces;
use super::strips::{self, Strip};
use crate::patch::{Patch, line, put};
use analysis::{BlockId, Cfg, Code, ModuleSymbols};
use model::layout::fence::{STOP, VARIABLE, stop};
use ptx::{Function, Mnemonic, Modifier, Module};
use rustc_hash::{FxHashMap, FxHashSet};

/// Passes of a loop between two loads of the word, at most.
const MOST_PASSES: u64 = 1024;
/// Steps between two loads in one activation of a kernel; of a function.
const FAR: [u64; 2] = [1 << 22, 1 << 16];
/// Steps that an address is fenced in, at most; and any instruction is written
/// in, with a fence behind it.
const FENCE: u64 = 48;
const OTHER: u64 = 14;
/// Steps of counting the passes of a strip, at most.
const STRIP: u64 = 12;
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
    /// Loops among them that go in strips, by their first instruction.
    strips: FxHashMap<usize, Strip>,
    /// The first instruction of each by its branch back.
    branches: FxHashMap<usize, usize>,
    /// Passes between two that load; 0 if there are none.
    pub(super) passes: u64,
    /// Whether some may do without a load, so that the word must be set before.
    pub(super) may_skip: bool,
    /// Whether there is one at the head.
    pub(super) at_head: bool,
    /// The number of blocks of a grid from which on there is one at the head.
    pub(super) blocks: u64,
}

impl Looks {
    /// Writes what comes before an instruction, which begins at a place.
    pub(super) fn write(&self, index: usize, at: u32, patch: &mut Patch) {
        if self.before.contains(&index) {
            patch.insert(at, |out| {
                counted(self.passes, out);
                if let Some(strip) = self.strips.get(&index) {
                    strip.begin(out);
                }
            });
        }
        let strip = self.branches.get(&index);
        if let Some(strip) = strip.and_then(|first| self.strips.get(first)) {
            patch.insert(at, |out| strip.again(out));
        }
    }
}

/// What a function is for the decision.
struct Known<'m, 'a> {
    function: &'m Function<'a>,
    code: Code<'m, 'a>,
    cfg: Cfg,
    heads: FxHashSet<BlockId>,
    /// Loops in strips, by their only block.
    strips: FxHashMap<BlockId, Strip>,
    /// Steps of the head.
    head: u64,
}

/// Decides where the functions of a module look.
pub(super) fn plan<'a>(
    module: &Module<'a>,
    symbols: &ModuleSymbols<'a>,
    refusals: &mut Refusals<'_>,
) -> FxHashMap<&'a str, Looks> {
    let functions = module.functions();
    let known: FxHashMap<&str, Known<'_, 'a>> = functions
        .filter_map(|function| Some((function.name, Known::of(symbols, function)?)))
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
    fn of(symbols: &ModuleSymbols<'a>, function: &'m Function<'a>) -> Option<Self> {
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
            head: HEAD + registers + frames + clearing,
            code,
            cfg,
            heads,
            strips: FxHashMap::default(),
        };
        if function.is_entry {
            known.strips = known.strips();
        }
        Some(known)
    }

    /// The loops that go in strips. (In other functions there is no room for the
    /// steps of a strip.)
    fn strips(&self) -> FxHashMap<BlockId, Strip> {
        let pieces = pieces(self.function.body.as_ref());
        let strip = |block: &BlockId| {
            let body = self.cfg.instructions(*block);
            let steps = body.map(|at| own_steps(self.code.instructions[at].instruction));
            let found = Strip::of(&self.code, &self.cfg, *block, &pieces, steps.sum())?;
            Some((*block, found))
        };
        self.heads.iter().filter_map(strip).collect()
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
            // Where all loops go in strips, loads are rare; and the fewer steps are
            // left to a thread, the larger are the grids that need not look.
            let far = match self.strips.len() == self.heads.len() {
                true => FAR[0] / 4,
                false => FAR[usize::from(!self.function.is_entry)],
            };
            passes = (far / longest).clamp(1, MOST_PASSES);
            passes = 1 << passes.ilog2();
        }
        let bound = longest.saturating_mul(passes + 1).saturating_add(self.head);
        let first = |block: &BlockId| self.cfg.blocks[block.0 as usize].first as usize;
        let mut instructions = self.code.instructions.iter();
        let strips = self.strips.iter();
        let looks = Looks {
            before: self.heads.iter().map(first).collect(),
            branches: strips
                .clone()
                .map(|(b, strip)| (strip.branch, first(b)))
                .collect(),
            strips: strips.map(|(b, strip)| (first(b), strip.clone())).collect(),
            passes,
            may_skip: passes > 0 || instructions.any(|inst| sleeps(inst.instruction)),
            at_head: false,
            blocks: (stop::GRID_STEPS / bound).max(1),
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
                let own = own_steps(instruction).saturating_add(inside.unwrap_or(0));
                sum = sum.saturating_add(own);
            }
            if let Some(strip) = self.strips.get(&block) {
                let own = self.cfg.instructions(block);
                let own = own.map(|at| own_steps(self.code.instructions[at].instruction));
                let pass = own.sum::<u64>() + STRIP;
                sum = sum.saturating_add(strip.passes.saturating_mul(pass));
            }
            longest[block.0 as usize] = sum;
            most = most.max(sum);
        }
        most
    }
}

/// Steps of an instruction of the program with its fences, without those of a
/// callee.
fn own_steps(instruction: &ptx::Instruction<'_>) -> u64 {
    OTHER + FENCE * instruction.addresses().count() as u64
}

/// Steps of the search for heads, at most, times the blocks and edges of a function.
/// Real code takes as many as its loops are deep.
const SEARCH: usize = 64;

/// Blocks without which no cycle is left; inner loops come first, so that outer
/// ones need one only for passes that go around the inner ones.
fn heads(cfg: &Cfg) -> FxHashSet<BlockId> {
    search(cfg).0
}

/// The heads, and how many steps it took to find them.
///
/// Each cycle has a block that is first in the order, and an edge of the cycle leads
/// back to it. So a block that an edge leads back to becomes a head, if a cycle goes
/// through it and blocks behind it, and through no head. Where that takes too long, all
/// of the rest become heads.
fn search(cfg: &Cfg) -> (FxHashSet<BlockId>, usize) {
    let place = |block: BlockId| cfg.position[block.0 as usize];
    let mut candidates: Vec<BlockId> = Vec::new();
    let mut edges = 0;
    for &block in &cfg.order {
        for &to in &cfg.blocks[block.0 as usize].successors {
            edges += 1;
            if place(to) <= place(block) {
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
    if !looks.strips.is_empty() {
        strips::head(out);
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

/// Counts the thread and retires it, if it must end.
pub(super) fn retire(out: &mut String) {
    line!(
        out,
        "@%__rf_halt red.global.add.u64 [%__rf_stop+{}], 1;",
        stop::RETIRED
    );
    line!(out, "@%__rf_halt exit;");
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
        let (heads, steps) = search(&cfg);
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
