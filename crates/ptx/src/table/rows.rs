//! The rows of the instruction table (PTX ISA, chapter 9).

use super::Convergence::{self, Block, Mask, Warp};
use super::Effect::{self, Atomic, Read, Write};
use super::{Predication, Space};

/// One instruction, or those of its forms that have the modifiers `with`.
pub(super) struct Row {
    /// Opcode up to the first dot.
    pub base: &'static str,
    /// Modifiers that this form must have, in any order.
    pub with: &'static [&'static str],
    /// Roles of the first operands, a letter each: `d` destination, `b` read
    /// and written, `s` source, `t` target. Operands beyond the letters are
    /// addresses where bracketed and sources elsewhere.
    pub roles: &'static str,
    /// Accesses to memory.
    pub accesses: &'static [AccessRow],
    /// Convergence; `.aligned` lifts `None` to `Warp`.
    pub convergence: Convergence,
    /// Control flow.
    pub is_control: bool,
    /// Who can leave the instruction out. Of what accesses memory; `Never` for
    /// all else.
    pub predication: Predication,
    /// Generic addresses may only lie in shared memory (PTX ISA: the behaviour
    /// is undefined elsewhere). Programs pass some of these instructions plain
    /// 32-bit shared addresses (Triton: `tcgen05.commit`).
    pub is_shared_only: bool,
}

/// One access of a row.
pub(super) struct AccessRow {
    pub operand: Which,
    pub space: SpaceRule,
    pub effect: Effect,
    pub width: WidthRule,
    pub alignment: AlignmentRule,
    pub asynchronous: bool,
    /// Left out where its operand is absent. Without the operand of any other
    /// access nothing is known of the instruction.
    pub is_optional: bool,
}

/// Which operand an access goes by.
#[derive(Clone, Copy)]
pub(super) enum Which {
    /// The nth bracketed operand.
    Bracket(usize),
    /// The nth operand, unless it is a vector of registers: a descriptor.
    Descriptor(usize),
}

/// Where the space comes from.
#[derive(Clone, Copy)]
pub(super) enum SpaceRule {
    /// The nth state space among the modifiers; generic if there are fewer.
    Nth(usize),
    /// Always this one.
    Is(Space),
}

/// Where the width comes from.
#[derive(Clone, Copy)]
pub(super) enum WidthRule {
    /// Vector length times the size of the last type.
    Typed,
    /// So many bytes.
    Bytes(u32),
    /// Held by the nth operand: sizes of bulk copies.
    Operand(usize),
    /// `cp.async`'s source.
    CopySource,
    /// `wmma` fragments: from shape, fragment, type, stride.
    Fragment,
    /// `ldmatrix`, `stmatrix`: rows of 16 bytes, as many lanes as rows.
    MatrixRow,
    /// From a descriptor or tensor map.
    Descriptor,
}

/// What the address must be a multiple of.
#[derive(Clone, Copy)]
pub(super) enum AlignmentRule {
    /// What is accessed: a vector is aligned as a whole (PTX ISA, 6.4.1).
    Whole,
    /// So many bytes.
    Bytes(u32),
    /// What `cp.async` copies, its third operand.
    Copied,
    /// What `wmma` fragments take, see `alignment`.
    Fragment,
    /// Of the last type: one field of a tensor map.
    Field,
    /// No hardware refuses an address for its low bits, or none is known to.
    Any,
    /// Not looked at: only a descriptor tells what is accessed.
    Described,
}

use Predication::{Lane, Warp as AllOfWarp, Whole};
use SpaceRule::{Is, Nth};
use Which::{Bracket, Descriptor as AtDescriptor};
use WidthRule::{Bytes, CopySource, Descriptor, Fragment, MatrixRow, Operand, Typed};

const fn row(base: &'static str, with: &'static [&'static str], roles: &'static str) -> Row {
    Row {
        base,
        with,
        roles,
        accesses: &[],
        convergence: Convergence::None,
        is_control: false,
        predication: Predication::Never,
        is_shared_only: false,
    }
}

impl Row {
    const fn accesses(mut self, accesses: &'static [AccessRow]) -> Row {
        self.accesses = accesses;
        self
    }

    const fn convergence(mut self, convergence: Convergence) -> Row {
        self.convergence = convergence;
        self
    }

    const fn control(mut self) -> Row {
        self.is_control = true;
        self
    }

    const fn predicated(mut self, predication: Predication) -> Row {
        self.predication = predication;
        self
    }

    const fn shared_only(mut self) -> Row {
        self.is_shared_only = true;
        self
    }
}

/// What most accesses of a width ask for.
const fn alignment_of(width: WidthRule) -> AlignmentRule {
    match width {
        Typed | Bytes(_) | MatrixRow => AlignmentRule::Whole,
        // Bulk copies: "dstMem and srcMem must be aligned to 16 bytes".
        Operand(_) => AlignmentRule::Bytes(16),
        CopySource => AlignmentRule::Copied,
        Fragment => AlignmentRule::Fragment,
        Descriptor => AlignmentRule::Described,
    }
}

impl AccessRow {
    const fn aligned(mut self, alignment: AlignmentRule) -> AccessRow {
        self.alignment = alignment;
        self
    }
}

const fn now(operand: usize, effect: Effect, space: SpaceRule, width: WidthRule) -> AccessRow {
    AccessRow {
        operand: Bracket(operand),
        space,
        effect,
        width,
        alignment: alignment_of(width),
        asynchronous: false,
        is_optional: false,
    }
}

const fn later(operand: usize, effect: Effect, space: SpaceRule, width: WidthRule) -> AccessRow {
    AccessRow {
        operand: Bracket(operand),
        space,
        effect,
        width,
        alignment: alignment_of(width),
        asynchronous: true,
        is_optional: false,
    }
}

/// Matrix operands of wgmma and tcgen05.mma, in shared memory.
const fn described(operand: usize) -> AccessRow {
    AccessRow {
        operand: AtDescriptor(operand),
        space: Is(Space::Shared),
        effect: Read,
        width: Descriptor,
        alignment: AlignmentRule::Described,
        asynchronous: true,
        is_optional: true,
    }
}

/// An 8-byte mbarrier object that a later completion counts down; some forms
/// go without, where it is not the only operand.
const fn completes(operand: usize, space: SpaceRule) -> AccessRow {
    let mut access = later(operand, Atomic, space, Bytes(8));
    access.is_optional = operand > 0;
    access
}

/// An operand of tcgen05.mma that may be in tensor memory.
const fn tensor(operand: usize) -> AccessRow {
    let mut access = later(operand, Read, TENSOR, Descriptor);
    access.is_optional = true;
    access
}

/// `cp.async`, which copies from global to shared memory only.
const COPY: &[AccessRow] = &[
    later(0, Write, Is(Space::Shared), Operand(2)).aligned(AlignmentRule::Copied),
    later(1, Read, Is(Space::Global), CopySource),
];

const TENSOR: SpaceRule = Is(Space::Tensor);

/// All instructions; per base the special forms come before the general.
#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    // Loads, stores, atomics (9.7.9)
    row("ld", &[], "d").accesses(&[now(0, Read, Nth(0), Typed)]).predicated(Lane),
    row("ldu", &[], "d").accesses(&[now(0, Read, Nth(0), Typed)]).predicated(Lane),
    row("st", &["async"], "").accesses(&[later(0, Write, Nth(0), Typed), completes(1, Nth(0))]).predicated(Whole).shared_only(),
    // (The ISA asks for a size that is a multiple of 8, and for nothing of the address.)
    row("st", &["bulk"], "").accesses(&[now(0, Write, Nth(0), Operand(1)).aligned(AlignmentRule::Any)]).predicated(Whole).shared_only(),
    row("st", &[], "").accesses(&[now(0, Write, Nth(0), Typed)]).predicated(Lane),
    row("atom", &[], "d").accesses(&[now(0, Atomic, Nth(0), Typed)]).predicated(Lane),
    row("red", &["async"], "").accesses(&[later(0, Atomic, Nth(0), Typed), completes(1, Nth(0))]).predicated(Whole).shared_only(),
    row("red", &[], "").accesses(&[now(0, Atomic, Nth(0), Typed)]).predicated(Lane),
    row("multimem", &["ld_reduce"], "d").accesses(&[now(0, Read, Nth(0), Typed)]),
    row("multimem", &["st"], "").accesses(&[now(0, Write, Nth(0), Typed)]),
    row("multimem", &["red"], "").accesses(&[now(0, Atomic, Nth(0), Typed)]),
    row("multimem", &["cp", "reduce"], "").accesses(&[later(0, Atomic, Nth(0), Operand(2)), later(1, Read, Nth(1), Operand(2))]),
    row("multimem", &["cp"], "").accesses(&[later(0, Write, Nth(0), Operand(2)), later(1, Read, Nth(1), Operand(2))]),
    // Hints: out of bounds is harmless. `discard` destroys what it names.
    row("prefetch", &[], ""),
    row("prefetchu", &[], ""),
    row("applypriority", &[], ""),
    row("createpolicy", &[], "d"),
    // (The ISA asks for 128 bytes; it is an operation on a line of the cache.)
    row("discard", &[], "").accesses(&[now(0, Write, Nth(0), Bytes(128)).aligned(AlignmentRule::Any)]),

    // Asynchronous copies (9.7.9.25)
    row("cp", &["async", "commit_group"], ""),
    row("cp", &["async", "wait_group"], ""),
    row("cp", &["async", "wait_all"], ""),
    row("cp", &["async", "mbarrier"], "").accesses(&[completes(0, Nth(0))]).predicated(Lane).shared_only(),
    row("cp", &["async", "bulk", "prefetch"], ""),
    row("cp", &["reduce", "async", "bulk", "tensor"], "").accesses(&[
        later(0, Atomic, Nth(0), Descriptor), later(1, Read, Nth(1), Descriptor)]).predicated(Whole),
    row("cp", &["reduce", "async", "bulk"], "").accesses(&[
        later(0, Atomic, Nth(0), Operand(2)), later(1, Read, Nth(1), Operand(2)), completes(2, Nth(0))]).predicated(Whole),
    row("cp", &["async", "bulk", "tensor"], "").accesses(&[
        later(0, Write, Nth(0), Descriptor), later(1, Read, Nth(1), Descriptor), completes(2, Nth(0))]).predicated(Whole),
    // Which of the bytes are written, or read, a mask or counts at both ends tell.
    row("cp", &["async", "bulk", "cp_mask"], "").accesses(&[
        later(0, Write, Nth(0), Descriptor), later(1, Read, Nth(1), Operand(2)), completes(2, Nth(0))]).predicated(Whole),
    row("cp", &["async", "bulk", "ignore_oob"], "").accesses(&[
        later(0, Write, Nth(0), Descriptor), later(1, Read, Nth(1), Descriptor), completes(2, Nth(0))]).predicated(Whole),
    row("cp", &["async", "bulk"], "").accesses(&[
        later(0, Write, Nth(0), Operand(2)), later(1, Read, Nth(1), Operand(2)), completes(2, Nth(0))]).predicated(Whole),
    row("cp", &["async", "shared", "global"], "").accesses(COPY).predicated(Lane),
    row("cp", &["async", "shared::cta", "global"], "").accesses(COPY).predicated(Lane),
    // (Fields are read and written alone, and a map is copied by words of 4 bytes.)
    row("tensormap", &["replace"], "").accesses(&[now(0, Write, Nth(0), Bytes(128)).aligned(AlignmentRule::Field)]),
    row("tensormap", &["cp_fenceproxy"], "").accesses(&[
        now(0, Write, Nth(0), Bytes(128)).aligned(AlignmentRule::Bytes(4)),
        now(1, Read, Nth(1), Bytes(128)).aligned(AlignmentRule::Bytes(4))]),

    // mbarrier objects: 8 bytes (9.7.13.15)
    row("mbarrier", &["init"], "").accesses(&[now(0, Write, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
    row("mbarrier", &["inval"], "").accesses(&[now(0, Write, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
    row("mbarrier", &["arrive"], "d").accesses(&[now(0, Atomic, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
    row("mbarrier", &["arrive_drop"], "d").accesses(&[now(0, Atomic, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
    row("mbarrier", &["expect_tx"], "").accesses(&[now(0, Atomic, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
    row("mbarrier", &["complete_tx"], "").accesses(&[now(0, Atomic, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
    row("mbarrier", &["test_wait"], "d").accesses(&[now(0, Atomic, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
    row("mbarrier", &["try_wait"], "d").accesses(&[now(0, Atomic, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
    row("mbarrier", &["pending_count"], "d"),
    row("clusterlaunchcontrol", &["try_cancel"], "").accesses(&[
        later(0, Write, Nth(0), Bytes(16)), completes(1, Nth(0))]).shared_only(),
    row("clusterlaunchcontrol", &["query_cancel"], "d"),

    // Matrices (9.7.14 to 9.7.16)
    row("ldmatrix", &[], "d").accesses(&[now(0, Read, Nth(0), MatrixRow)]).convergence(Warp).predicated(AllOfWarp).shared_only(),
    row("stmatrix", &[], "").accesses(&[now(0, Write, Nth(0), MatrixRow)]).convergence(Warp).predicated(AllOfWarp).shared_only(),
    row("movmatrix", &[], "d").convergence(Warp),
    row("mma", &[], "d").convergence(Warp),
    row("wmma", &["load"], "d").accesses(&[now(0, Read, Nth(0), Fragment)]).convergence(Warp).predicated(AllOfWarp),
    row("wmma", &["store"], "").accesses(&[now(0, Write, Nth(0), Fragment)]).convergence(Warp).predicated(AllOfWarp),
    row("wmma", &["mma"], "d").convergence(Warp),
    row("wgmma", &["mma_async"], "b").accesses(&[described(1), described(2)]).convergence(Warp),
    row("wgmma", &["fence"], "").convergence(Warp),
    row("wgmma", &["commit_group"], "").convergence(Warp),
    row("wgmma", &["wait_group"], "").convergence(Warp),
    row("tcgen05", &["alloc"], "").accesses(&[now(0, Write, Nth(0), Bytes(4))]).convergence(Warp).shared_only(),
    row("tcgen05", &["dealloc"], "").convergence(Warp),
    row("tcgen05", &["relinquish_alloc_permit"], "").convergence(Warp),
    row("tcgen05", &["ld", "red"], "dd").accesses(&[later(0, Read, TENSOR, Descriptor)]).convergence(Warp).shared_only(),
    row("tcgen05", &["ld"], "d").accesses(&[later(0, Read, TENSOR, Descriptor)]).convergence(Warp).shared_only(),
    row("tcgen05", &["st"], "").accesses(&[later(0, Write, TENSOR, Descriptor)]).convergence(Warp).shared_only(),
    row("tcgen05", &["wait::ld"], "").convergence(Warp),
    row("tcgen05", &["wait::st"], "").convergence(Warp),
    row("tcgen05", &["wait"], "").convergence(Warp),
    row("tcgen05", &["cp"], "").accesses(&[later(0, Write, TENSOR, Descriptor), described(1)]).shared_only(),
    row("tcgen05", &["shift"], "").accesses(&[later(0, Write, TENSOR, Descriptor)]).shared_only(),
    row("tcgen05", &["mma"], "").accesses(&[
        later(0, Write, TENSOR, Descriptor), described(1), described(2), tensor(1), tensor(2), tensor(3), tensor(4)]).shared_only(),
    row("tcgen05", &["commit"], "").accesses(&[completes(0, Nth(0))]).shared_only(),
    row("tcgen05", &["fence"], ""),
    row("tcgen05", &["fence::before_thread_sync"], ""),
    row("tcgen05", &["fence::after_thread_sync"], ""),

    // Textures and surfaces: opaque handles, bounded by the hardware (9.7.10, 9.7.11)
    row("tex", &[], "ds"),
    row("tld4", &[], "ds"),
    row("txq", &[], "ds"),
    row("suld", &[], "ds"),
    row("sust", &[], "s"),
    row("sured", &[], "s"),
    row("suq", &[], "ds"),
    row("istypep", &[], "d"),

    // Addresses (9.7.9)
    row("cvta", &[], "d"),
    row("isspacep", &[], "d"),
    row("mapa", &[], "d"),
    row("getctarank", &[], "d"),
    row("alloca", &[], "d"),
    row("stacksave", &[], "d"),
    row("stackrestore", &[], ""),

    // Control (9.7.12)
    row("bra", &[], "t").control(),
    row("brx", &[], "st").control(),
    row("call", &[], "").control(),
    row("ret", &[], "").control(),
    row("exit", &[], "").control(),
    row("trap", &[], "").control(),

    // Barriers and what needs other lanes (9.7.13)
    row("bar", &["warp"], "").convergence(Mask),
    row("bar", &["red"], "d").convergence(Block),
    row("bar", &[], "").convergence(Block),
    row("barrier", &["red"], "d").convergence(Block),
    row("barrier", &[], "").convergence(Block),
    row("vote", &["sync"], "d").convergence(Mask),
    row("vote", &[], "d").convergence(Warp),
    row("shfl", &["sync"], "d").convergence(Mask),
    row("shfl", &[], "d").convergence(Warp),
    row("match", &[], "d").convergence(Mask),
    row("redux", &[], "d").convergence(Mask),
    row("elect", &[], "d").convergence(Mask),
    row("activemask", &[], "d"),
    row("setmaxnreg", &[], "").convergence(Warp),
    row("griddepcontrol", &[], ""),
    row("membar", &[], ""),
    row("fence", &[], ""),

    // Everything below reads sources and writes its first operand.
    row("mov", &[], "d"), row("cvt", &[], "d"), row("prmt", &[], "d"), row("selp", &[], "d"),
    row("slct", &[], "d"), row("set", &[], "d"), row("setp", &[], "d"),
    // Integers, with and without carry (9.7.1, 9.7.2)
    row("add", &[], "d"), row("addc", &[], "d"), row("sub", &[], "d"), row("subc", &[], "d"),
    row("mul", &[], "d"), row("mul24", &[], "d"), row("mad", &[], "d"), row("mad24", &[], "d"),
    row("madc", &[], "d"), row("sad", &[], "d"), row("div", &[], "d"), row("rem", &[], "d"),
    row("abs", &[], "d"), row("neg", &[], "d"), row("min", &[], "d"), row("max", &[], "d"),
    row("popc", &[], "d"), row("clz", &[], "d"), row("bfind", &[], "d"), row("fns", &[], "d"),
    row("brev", &[], "d"), row("bfe", &[], "d"), row("bfi", &[], "d"), row("szext", &[], "d"),
    row("bmsk", &[], "d"), row("dp4a", &[], "d"), row("dp2a", &[], "d"), row("clmad", &[], "d"),
    // Floating point (9.7.3 to 9.7.5)
    row("testp", &[], "d"), row("copysign", &[], "d"), row("fma", &[], "d"), row("rcp", &[], "d"),
    row("sqrt", &[], "d"), row("rsqrt", &[], "d"), row("sin", &[], "d"), row("cos", &[], "d"),
    row("lg2", &[], "d"), row("ex2", &[], "d"), row("tanh", &[], "d"),
    // Logic and shifts (9.7.8)
    row("and", &[], "d"), row("or", &[], "d"), row("xor", &[], "d"), row("not", &[], "d"),
    row("cnot", &[], "d"), row("lop3", &[], "d"), row("shl", &[], "d"), row("shr", &[], "d"),
    row("shf", &[], "d"),
    // Video (9.7.17, 9.7.18)
    row("vadd", &[], "d"), row("vsub", &[], "d"), row("vabsdiff", &[], "d"), row("vmin", &[], "d"),
    row("vmax", &[], "d"), row("vshl", &[], "d"), row("vshr", &[], "d"), row("vmad", &[], "d"),
    row("vset", &[], "d"), row("vadd2", &[], "d"), row("vsub2", &[], "d"), row("vavrg2", &[], "d"),
    row("vabsdiff2", &[], "d"), row("vmin2", &[], "d"), row("vmax2", &[], "d"), row("vset2", &[], "d"),
    row("vadd4", &[], "d"), row("vsub4", &[], "d"), row("vavrg4", &[], "d"), row("vabsdiff4", &[], "d"),
    row("vmin4", &[], "d"), row("vmax4", &[], "d"), row("vset4", &[], "d"),
    // The rest (9.7.19)
    row("brkpt", &[], ""), row("nanosleep", &[], ""), row("pmevent", &[], ""),
];
