//! Which values are the same for all lanes of a warp, when they have waited for each
//! other equally often (`waits` has the argument).
//!
//! What no rule here is for may be different.

use super::flow::Flow;
use super::waits::Ends as Level;
use model::layout::fence::VARIABLE;
use ptx::table::Role;
use ptx::{Instruction, Mnemonic, Modifier, OperandKind};
use rustc_hash::FxHashMap;

/// What is known of the registers of a body. They are numbered anew: a declaration may
/// be of more of them than fit into memory.
pub(super) struct Values {
    /// By instruction.
    reads: Vec<Vec<usize>>,
    written: Vec<Vec<usize>>,
    /// What an instruction computes apart from the registers that it reads.
    sources: Vec<Source>,
    /// It is on a way that not all lanes go.
    ways: Vec<Level>,
    /// By register: whether it is the same for all lanes.
    levels: Vec<Level>,
    /// It holds one value in a launch, however often it is written.
    is_fixed: Vec<bool>,
    /// Instructions that read it.
    readers: Vec<Vec<usize>>,
    /// Instructions whose results may have changed.
    left: Vec<usize>,
    is_left: Vec<bool>,
}

/// What an instruction computes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// From its registers, and from something else of this kind.
    Computed { other: Level, is_fixed: bool },
    /// From the number of the thread in x, in such a way that all threads of a row of
    /// 32 get the same.
    OfRow,
    /// The same for all lanes that execute it together.
    Same { is_fixed: bool },
    /// Anything.
    Any,
}

impl Values {
    pub(super) fn of(flow: &Flow<'_, '_>, is_entry: bool) -> Values {
        let mut numbers: FxHashMap<u32, usize> = FxHashMap::default();
        let mut number = |register: u32| {
            let next = numbers.len();
            *numbers.entry(register).or_insert(next)
        };
        let assigned: Vec<usize> = flow.assigned.iter().map(|one| number(*one)).collect();
        let (mut reads, mut written) = (Vec::<Vec<usize>>::new(), Vec::<Vec<usize>>::new());
        for (at, step) in flow.steps.iter().enumerate() {
            reads.push(step.reads.iter().map(|one| number(*one)).collect());
            written.push(may_write(flow, at).into_iter().map(&mut number).collect());
        }
        let (registers, count) = (numbers.len(), flow.steps.len());
        let mut readers = vec![Vec::new(); registers];
        for (at, registers) in reads.iter().enumerate() {
            for register in registers {
                readers[*register].push(at);
            }
        }
        let threads = threads(flow);
        let mut values = Values {
            reads,
            written,
            sources: (0..count)
                .map(|at| source(flow, at, is_entry, &threads))
                .collect(),
            ways: vec![Level::Always; count],
            levels: vec![Level::Always; registers],
            is_fixed: vec![false; registers],
            readers,
            left: (0..count).collect(),
            is_left: vec![true; count],
        };
        for register in assigned {
            values.levels[register] = Level::Unknown;
        }
        values.fix(flow);
        values
    }

    /// Finds the registers that hold one value: one instruction writes each, and
    /// computes it from such registers.
    fn fix(&mut self, flow: &Flow<'_, '_>) {
        let mut writers = vec![0u32; self.levels.len()];
        for register in self.written.iter().flatten() {
            writers[*register] += 1;
        }
        let is_candidate = |at: usize| {
            let is_fixed = match self.sources[at] {
                Source::Computed { is_fixed, .. } | Source::Same { is_fixed } => is_fixed,
                Source::OfRow => true,
                Source::Any => false,
            };
            is_fixed && flow.steps[at].instruction.guard.is_none()
        };
        // How many of the registers that it reads are not known to hold one value.
        let mut missing: Vec<usize> = self.reads.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..missing.len())
            .filter(|at| is_candidate(*at) && missing[*at] == 0)
            .collect();
        let mut found = Vec::new();
        let mut is_found = vec![false; self.levels.len()];
        while let Some(at) = ready.pop() {
            for register in self.written[at].iter().filter(|one| writers[**one] == 1) {
                if std::mem::replace(&mut is_found[*register], true) {
                    continue;
                }
                found.push(*register);
                for reader in &self.readers[*register] {
                    missing[*reader] -= 1;
                    if missing[*reader] == 0 && is_candidate(*reader) {
                        ready.push(*reader);
                    }
                }
            }
        }
        for register in found {
            self.is_fixed[register] = true;
        }
    }

    /// Whether all lanes of a warp decide alike at an instruction.
    pub(super) fn decides(&self, at: usize) -> Level {
        let levels = self.reads[at].iter().map(|register| self.levels[*register]);
        levels.max().unwrap_or_default()
    }

    /// Takes in a branch at which not all lanes go the same way, with the instructions
    /// up to where the ways meet.
    pub(super) fn diverge(&mut self, way: &[usize], level: Level) {
        for &at in way {
            if self.ways[at] < level {
                self.ways[at] = level;
                self.leave(at);
            }
        }
    }

    fn leave(&mut self, at: usize) {
        if !std::mem::replace(&mut self.is_left[at], true) {
            self.left.push(at);
        }
    }

    /// Follows values until nothing changes.
    pub(super) fn settle(&mut self, flow: &Flow<'_, '_>) {
        while let Some(at) = self.left.pop() {
            self.is_left[at] = false;
            let computed = self.computed(flow, at);
            for number in 0..self.written[at].len() {
                let register = self.written[at][number];
                let level = match self.is_fixed[register] {
                    true => computed,
                    false => computed.max(self.ways[at]),
                };
                if level <= self.levels[register] {
                    continue;
                }
                self.levels[register] = level;
                let readers = std::mem::take(&mut self.readers[register]);
                readers.iter().for_each(|reader| self.leave(*reader));
                self.readers[register] = readers;
            }
        }
    }

    /// Whether all lanes that execute an instruction get the same.
    fn computed(&self, flow: &Flow<'_, '_>, at: usize) -> Level {
        let is_guarded = flow.steps[at].instruction.guard.is_some();
        match self.sources[at] {
            Source::Computed { other, .. } => self.decides(at).max(other),
            Source::OfRow if !is_guarded => Level::InFlatBlocks,
            // (A guard is among what is read.)
            Source::Same { .. } if is_guarded => self.decides(at),
            Source::Same { .. } => Level::Always,
            Source::OfRow | Source::Any => Level::Unknown,
        }
    }
}

/// The registers that an instruction may write, whether its guard holds or not.
pub(super) fn may_write(flow: &Flow<'_, '_>, at: usize) -> Vec<u32> {
    let instruction = flow.steps[at].instruction;
    let info = ptx::table::classify(instruction);
    let is_call = instruction.opcode.mnemonic() == Mnemonic::Call;
    let mut out = Vec::new();
    for (index, operand) in instruction.operands.iter().enumerate() {
        let role = info
            .as_ref()
            .and_then(|info| info.roles.get(index).copied());
        let is_read = match role {
            _ if is_call => index != 0 || !matches!(operand.kind, OperandKind::List(_)),
            Some(Role::Destination | Role::Both) => false,
            Some(_) => true,
            // What is not known is refused; until then it may write anything.
            None => false,
        };
        if !is_read && !matches!(operand.kind, OperandKind::Address(_)) {
            operand.names(&mut |name| out.extend(flow.register(at, name)));
        }
    }
    out
}

/// Instructions that only compute from their operands.
const COMPUTING: &[Mnemonic] = &[
    Mnemonic::Mov,
    Mnemonic::Cvt,
    Mnemonic::Cvta,
    Mnemonic::Prmt,
    Mnemonic::Selp,
    Mnemonic::Slct,
    Mnemonic::Set,
    Mnemonic::Setp,
    Mnemonic::Add,
    Mnemonic::Sub,
    Mnemonic::Mul,
    Mnemonic::Mul24,
    Mnemonic::Mad,
    Mnemonic::Mad24,
    Mnemonic::Sad,
    Mnemonic::Div,
    Mnemonic::Rem,
    Mnemonic::Abs,
    Mnemonic::Neg,
    Mnemonic::Min,
    Mnemonic::Max,
    Mnemonic::Popc,
    Mnemonic::Clz,
    Mnemonic::Bfind,
    Mnemonic::Brev,
    Mnemonic::Bfe,
    Mnemonic::Bfi,
    Mnemonic::Fma,
    Mnemonic::And,
    Mnemonic::Or,
    Mnemonic::Xor,
    Mnemonic::Not,
    Mnemonic::Cnot,
    Mnemonic::Lop3,
    Mnemonic::Shl,
    Mnemonic::Shr,
    Mnemonic::Shf,
];

/// Special registers that are the same for all threads of a block, at any time.
const OF_BLOCK: &[&str] = &[
    "%ntid",
    "%ctaid",
    "%nctaid",
    "%gridid",
    "%total_smem_size",
    "%dynamic_smem_size",
];

/// Special registers that a thread always reads the same in.
const OF_THREAD: &[&str] = &[
    "%tid",
    "%laneid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
];

fn source(flow: &Flow<'_, '_>, at: usize, is_entry: bool, threads: &Threads) -> Source {
    let instruction = flow.steps[at].instruction;
    let opcode = &instruction.opcode;
    if COMPUTING.contains(&opcode.mnemonic()) && !opcode.has(Modifier::Cc) {
        if threads.is_of_row(flow, at) {
            return Source::OfRow;
        }
        let (other, is_fixed) = special(flow, at);
        return Source::Computed { other, is_fixed };
    }
    match opcode.mnemonic() {
        Mnemonic::Ld if is_constant(flow, at, is_entry) => Source::Same { is_fixed: true },
        Mnemonic::Vote | Mnemonic::Redux if is_for_all(instruction) => {
            Source::Same { is_fixed: false }
        }
        _ => Source::Any,
    }
}

/// What special registers among the operands make of a result: whether it is the same
/// for all lanes, and whether it never changes.
fn special(flow: &Flow<'_, '_>, at: usize) -> (Level, bool) {
    let (mut level, mut is_fixed) = (Level::Always, true);
    let mut visit = |name: &str| {
        if !name.starts_with('%') || flow.register(at, name).is_some() {
            return;
        }
        let bare = name.split('.').next().unwrap_or(name);
        if OF_BLOCK.contains(&bare) {
            return;
        }
        level = Level::Unknown;
        is_fixed &= OF_THREAD.contains(&bare);
    };
    for operand in &flow.steps[at].instruction.operands {
        match &operand.kind {
            OperandKind::Text(text) => visit(text),
            _ => operand.names(&mut visit),
        }
    }
    (level, is_fixed)
}

/// Whether a load is of a kernel's parameter, or of the table of the partition: both
/// are the same for all, and nothing writes them while the kernel runs.
fn is_constant(flow: &Flow<'_, '_>, at: usize, is_entry: bool) -> bool {
    let instruction = flow.steps[at].instruction;
    let Some((_, address)) = instruction.address_operand() else {
        return false;
    };
    let Some(base) = address.base.filter(|_| address.coordinates.is_empty()) else {
        return false;
    };
    if flow.register(at, base).is_some() {
        return false;
    }
    let has = |modifier| instruction.opcode.has(modifier);
    let is_parameter = is_entry && has(Modifier::Param) && flow.is_parameter(base);
    is_parameter || (has(Modifier::Const) && base == VARIABLE)
}

/// Whether an instruction for the lanes of a mask is for all of them.
fn is_for_all(instruction: &Instruction<'_>) -> bool {
    let mask = instruction.operands.last().map(|operand| &operand.kind);
    matches!(mask, Some(OperandKind::Integer(lanes)) if *lanes as u32 == u32::MAX)
}

/// Threads of a warp.
const WARP: i64 = 32;

/// The registers that hold the number of the thread in x, and nothing else.
struct Threads(Vec<u32>);

fn threads(flow: &Flow<'_, '_>) -> Threads {
    let mut writers: FxHashMap<u32, (u32, bool)> = FxHashMap::default();
    for (at, step) in flow.steps.iter().enumerate() {
        let instruction = step.instruction;
        let is_move = instruction.opcode.mnemonic() == Mnemonic::Mov
            && instruction.guard.is_none()
            && instruction.operands.len() == 2
            && is_special(&instruction.operands[1].kind, "%tid.x");
        for register in may_write(flow, at) {
            let (count, is_only) = writers.entry(register).or_insert((0, true));
            *count += 1;
            *is_only &= is_move;
        }
    }
    let those = writers.into_iter();
    Threads(
        those
            .filter(|(_, (count, is_only))| *count == 1 && *is_only)
            .map(|(register, _)| register)
            .collect(),
    )
}

fn is_special(kind: &OperandKind<'_>, name: &str) -> bool {
    match kind {
        OperandKind::Name(found) => *found == name,
        OperandKind::Text(text) => *text == name,
        _ => false,
    }
}

impl Threads {
    /// Whether an instruction computes from the number of a thread in x what all
    /// threads of a row of 32, which begins at a multiple of 32, have in common.
    fn is_of_row(&self, flow: &Flow<'_, '_>, at: usize) -> bool {
        let instruction = flow.steps[at].instruction;
        let [_, left, right] = &instruction.operands[..] else {
            return false;
        };
        let (OperandKind::Name(name), OperandKind::Integer(value)) = (&left.kind, &right.kind)
        else {
            return false;
        };
        let register = flow.register(at, name);
        if !register.is_some_and(|register| self.0.contains(&register)) {
            return false;
        }
        let opcode = &instruction.opcode;
        let is_narrow = opcode.types().all(|ty| ty.bytes() == 4);
        let has = |modifier| opcode.has(modifier);
        let is_plain = opcode.modifiers().len() == 2;
        is_narrow
            && match opcode.mnemonic() {
                Mnemonic::Shr => (5..32).contains(value),
                Mnemonic::And => value & (WARP - 1) == 0,
                Mnemonic::Setp if is_plain && (has(Modifier::Lt) || has(Modifier::Ge)) => {
                    value % WARP == 0
                }
                Mnemonic::Setp if is_plain && (has(Modifier::Gt) || has(Modifier::Le)) => {
                    (value + 1) % WARP == 0
                }
                _ => false,
            }
    }
}
