//! The rows of the instruction table (PTX ISA, chapter 9).

use super::Convergence::{self, Block, Mask, Warp};
use super::Effect::{self, Atomic, Read, Write};
use super::{Predication, Space};
use crate::Modifier as M;
use crate::names::Names;

/// One instruction, or those of its forms that have the modifiers `with`.
pub(super) struct Row {
    /// Modifiers that this form must have, in any order.
    pub with: &'static [M],
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
    /// Which threads can skip an instruction that accesses memory; `Never` for
    /// all others.
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

/// Which operand holds the address of an access.
#[derive(Clone, Copy)]
pub(super) enum Which {
    /// The nth bracketed operand.
    Bracket(usize),
    /// The nth operand, unless it is a vector of registers: a descriptor.
    Descriptor(usize),
}

/// What determines the state space.
#[derive(Clone, Copy)]
pub(super) enum SpaceRule {
    /// The nth state space among the modifiers; generic if there are fewer.
    Nth(usize),
    /// Always this one.
    Is(Space),
}

/// What determines the width.
#[derive(Clone, Copy)]
pub(super) enum WidthRule {
    /// Vector length times the size of the last type.
    Typed,
    /// This many bytes.
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
    /// This many bytes.
    Bytes(u32),
    /// What `cp.async` copies, its third operand.
    Copied,
    /// What `wmma` fragments require, see `alignment`.
    Fragment,
    /// Of the last type: one field of a tensor map.
    Field,
    /// No hardware refuses an address for its low bits, or none is known to.
    Any,
    /// Not analysed: only a descriptor determines what is accessed.
    Described,
}

use Predication::{Lane, Warp as AllOfWarp, Whole};
use SpaceRule::{Is, Nth};
use Which::{Bracket, Descriptor as AtDescriptor};
use WidthRule::{Bytes, CopySource, Descriptor, Fragment, MatrixRow, Operand, Typed};

const fn row(with: &'static [M], roles: &'static str) -> Row {
    Row {
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

    const fn is_plain(&self) -> bool {
        matches!(self.roles.as_bytes(), b"d")
            && self.accesses.is_empty()
            && matches!(self.convergence, Convergence::None)
            && !self.is_control
    }

    const fn shared_only(mut self) -> Row {
        self.is_shared_only = true;
        self
    }
}

/// What most accesses of a width require.
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

/// Declares the instructions: a variant of [`Mnemonic`], its text, and its rows
/// each.
macro_rules! instructions {
    ($($mnemonic:ident $text:literal: $($row:expr),+;)*) => {
        /// The part of an opcode before its first dot.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        #[repr(u8)]
        pub enum Mnemonic {
            $($mnemonic,)*
            /// The table has no such instruction.
            Unknown,
        }

        const ALL: &[Mnemonic] = &[$(Mnemonic::$mnemonic,)*];

        static NAMES: Names<512> = Names::of(&[$($text,)*]);

        static ROWS: &[&[Row]] = &[$(&[$($row),+],)*];
    };
}

// All instructions; the special forms of a mnemonic stand before the general.
#[rustfmt::skip]
instructions! {
    // Loads, stores, atomics (9.7.9)
    Ld "ld": row(&[], "d").accesses(&[now(0, Read, Nth(0), Typed)]).predicated(Lane);
    Ldu "ldu": row(&[], "d").accesses(&[now(0, Read, Nth(0), Typed)]).predicated(Lane);
    St "st":
        row(&[M::Async], "").accesses(&[later(0, Write, Nth(0), Typed), completes(1, Nth(0))]).predicated(Whole).shared_only(),
        // (The ISA requires a size that is a multiple of 8, and nothing of the
        // address.)
        row(&[M::Bulk], "").accesses(&[now(0, Write, Nth(0), Operand(1)).aligned(AlignmentRule::Any)]).predicated(Whole).shared_only(),
        row(&[], "").accesses(&[now(0, Write, Nth(0), Typed)]).predicated(Lane);
    Atom "atom": row(&[], "d").accesses(&[now(0, Atomic, Nth(0), Typed)]).predicated(Lane);
    Red "red":
        row(&[M::Async], "").accesses(&[later(0, Atomic, Nth(0), Typed), completes(1, Nth(0))]).predicated(Whole).shared_only(),
        row(&[], "").accesses(&[now(0, Atomic, Nth(0), Typed)]).predicated(Lane);
    Multimem "multimem":
        row(&[M::LdReduce], "d").accesses(&[now(0, Read, Nth(0), Typed)]),
        row(&[M::St], "").accesses(&[now(0, Write, Nth(0), Typed)]),
        row(&[M::Red], "").accesses(&[now(0, Atomic, Nth(0), Typed)]),
        row(&[M::Cp, M::Reduce], "").accesses(&[later(0, Atomic, Nth(0), Operand(2)), later(1, Read, Nth(1), Operand(2))]),
        row(&[M::Cp], "").accesses(&[later(0, Write, Nth(0), Operand(2)), later(1, Read, Nth(1), Operand(2))]);

    // Hints: out of bounds is harmless. `discard` destroys what it names.
    Prefetch "prefetch": row(&[], ""); Prefetchu "prefetchu": row(&[], "");
    Applypriority "applypriority": row(&[], ""); Createpolicy "createpolicy": row(&[], "d");
    // (The ISA requires 128 bytes; it is an operation on a line of the cache.)
    Discard "discard": row(&[], "").accesses(&[now(0, Write, Nth(0), Bytes(128)).aligned(AlignmentRule::Any)]);

    // Asynchronous copies (9.7.9.25)
    Cp "cp":
        row(&[M::Async, M::CommitGroup], ""),
        row(&[M::Async, M::WaitGroup], ""),
        row(&[M::Async, M::WaitAll], ""),
        row(&[M::Async, M::Mbarrier], "").accesses(&[completes(0, Nth(0))]).predicated(Lane).shared_only(),
        row(&[M::Async, M::Bulk, M::Prefetch], ""),
        row(&[M::Reduce, M::Async, M::Bulk, M::Tensor], "").accesses(&[
            later(0, Atomic, Nth(0), Descriptor), later(1, Read, Nth(1), Descriptor)]).predicated(Whole),
        row(&[M::Reduce, M::Async, M::Bulk], "").accesses(&[
            later(0, Atomic, Nth(0), Operand(2)), later(1, Read, Nth(1), Operand(2)), completes(2, Nth(0))]).predicated(Whole),
        row(&[M::Async, M::Bulk, M::Tensor], "").accesses(&[
            later(0, Write, Nth(0), Descriptor), later(1, Read, Nth(1), Descriptor), completes(2, Nth(0))]).predicated(Whole),
        // A mask, or counts at both ends, select the bytes that are written or
        // read.
        row(&[M::Async, M::Bulk, M::CpMask], "").accesses(&[
            later(0, Write, Nth(0), Descriptor), later(1, Read, Nth(1), Operand(2)), completes(2, Nth(0))]).predicated(Whole),
        row(&[M::Async, M::Bulk, M::IgnoreOob], "").accesses(&[
            later(0, Write, Nth(0), Descriptor), later(1, Read, Nth(1), Descriptor), completes(2, Nth(0))]).predicated(Whole),
        row(&[M::Async, M::Bulk], "").accesses(&[
            later(0, Write, Nth(0), Operand(2)), later(1, Read, Nth(1), Operand(2)), completes(2, Nth(0))]).predicated(Whole),
        row(&[M::Async, M::Shared, M::Global], "").accesses(COPY).predicated(Lane),
        row(&[M::Async, M::SharedCta, M::Global], "").accesses(COPY).predicated(Lane);
    // (Fields are read and written alone, and a map is copied by words of 4 bytes.)
    Tensormap "tensormap":
        row(&[M::Replace], "").accesses(&[now(0, Write, Nth(0), Bytes(128)).aligned(AlignmentRule::Field)]),
        row(&[M::CpFenceproxy], "").accesses(&[
            now(0, Write, Nth(0), Bytes(128)).aligned(AlignmentRule::Bytes(4)),
            now(1, Read, Nth(1), Bytes(128)).aligned(AlignmentRule::Bytes(4))]);

    // mbarrier objects: 8 bytes (9.7.13.15)
    Mbarrier "mbarrier":
        row(&[M::Init], "").accesses(&[now(0, Write, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
        row(&[M::Inval], "").accesses(&[now(0, Write, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
        row(&[M::Arrive], "d").accesses(&[now(0, Atomic, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
        row(&[M::ArriveDrop], "d").accesses(&[now(0, Atomic, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
        row(&[M::ExpectTx], "").accesses(&[now(0, Atomic, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
        row(&[M::CompleteTx], "").accesses(&[now(0, Atomic, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
        row(&[M::TestWait], "d").accesses(&[now(0, Atomic, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
        row(&[M::TryWait], "d").accesses(&[now(0, Atomic, Nth(0), Bytes(8))]).predicated(Lane).shared_only(),
        row(&[M::PendingCount], "d");
    Clusterlaunchcontrol "clusterlaunchcontrol":
        row(&[M::TryCancel], "").accesses(&[
            later(0, Write, Nth(0), Bytes(16)), completes(1, Nth(0))]).shared_only(),
        row(&[M::QueryCancel], "d");

    // Matrices (9.7.14 to 9.7.16)
    Ldmatrix "ldmatrix": row(&[], "d").accesses(&[now(0, Read, Nth(0), MatrixRow)]).convergence(Warp).predicated(AllOfWarp).shared_only();
    Stmatrix "stmatrix": row(&[], "").accesses(&[now(0, Write, Nth(0), MatrixRow)]).convergence(Warp).predicated(AllOfWarp).shared_only();
    Movmatrix "movmatrix": row(&[], "d").convergence(Warp);
    Mma "mma": row(&[], "d").convergence(Warp);
    Wmma "wmma":
        row(&[M::Load], "d").accesses(&[now(0, Read, Nth(0), Fragment)]).convergence(Warp).predicated(AllOfWarp),
        row(&[M::Store], "").accesses(&[now(0, Write, Nth(0), Fragment)]).convergence(Warp).predicated(AllOfWarp),
        row(&[M::Mma], "d").convergence(Warp);
    Wgmma "wgmma":
        row(&[M::MmaAsync], "b").accesses(&[described(1), described(2)]).convergence(Warp),
        row(&[M::Fence], "").convergence(Warp),
        row(&[M::CommitGroup], "").convergence(Warp),
        row(&[M::WaitGroup], "").convergence(Warp);
    Tcgen05 "tcgen05":
        row(&[M::Alloc], "").accesses(&[now(0, Write, Nth(0), Bytes(4))]).convergence(Warp).shared_only(),
        row(&[M::Dealloc], "").convergence(Warp),
        row(&[M::RelinquishAllocPermit], "").convergence(Warp),
        row(&[M::Ld, M::Red], "dd").accesses(&[later(0, Read, TENSOR, Descriptor)]).convergence(Warp).shared_only(),
        row(&[M::Ld], "d").accesses(&[later(0, Read, TENSOR, Descriptor)]).convergence(Warp).shared_only(),
        row(&[M::St], "").accesses(&[later(0, Write, TENSOR, Descriptor)]).convergence(Warp).shared_only(),
        row(&[M::WaitLd], "").convergence(Warp),
        row(&[M::WaitSt], "").convergence(Warp),
        row(&[M::Wait], "").convergence(Warp),
        row(&[M::Cp], "").accesses(&[later(0, Write, TENSOR, Descriptor), described(1)]).shared_only(),
        row(&[M::Shift], "").accesses(&[later(0, Write, TENSOR, Descriptor)]).shared_only(),
        row(&[M::Mma], "").accesses(&[
            later(0, Write, TENSOR, Descriptor), described(1), described(2), tensor(1), tensor(2), tensor(3), tensor(4)]).shared_only(),
        row(&[M::Commit], "").accesses(&[completes(0, Nth(0))]).shared_only(),
        row(&[M::Fence], ""),
        row(&[M::FenceBeforeThreadSync], ""),
        row(&[M::FenceAfterThreadSync], "");

    // Textures and surfaces: opaque handles, bounded by the hardware (9.7.10, 9.7.11)
    Tex "tex": row(&[], "ds"); Tld4 "tld4": row(&[], "ds"); Txq "txq": row(&[], "ds");
    Suld "suld": row(&[], "ds"); Sust "sust": row(&[], "s"); Sured "sured": row(&[], "s");
    Suq "suq": row(&[], "ds"); Istypep "istypep": row(&[], "d");

    // Addresses (9.7.9)
    Cvta "cvta": row(&[], "d"); Isspacep "isspacep": row(&[], "d"); Mapa "mapa": row(&[], "d");
    Getctarank "getctarank": row(&[], "d"); Alloca "alloca": row(&[], "d");
    Stacksave "stacksave": row(&[], "d"); Stackrestore "stackrestore": row(&[], "");

    // Control (9.7.12)
    Bra "bra": row(&[], "t").control();
    Brx "brx": row(&[], "st").control();
    Call "call": row(&[], "").control();
    Ret "ret": row(&[], "").control();
    Exit "exit": row(&[], "").control();
    Trap "trap": row(&[], "").control();

    // Barriers and what needs other lanes (9.7.13)
    Bar "bar":
        row(&[M::Warp], "").convergence(Mask),
        row(&[M::Red], "d").convergence(Block),
        row(&[], "").convergence(Block);
    Barrier "barrier":
        row(&[M::Red], "d").convergence(Block),
        row(&[], "").convergence(Block);
    Vote "vote":
        row(&[M::Sync], "d").convergence(Mask),
        row(&[], "d").convergence(Warp);
    Shfl "shfl":
        row(&[M::Sync], "d").convergence(Mask),
        row(&[], "d").convergence(Warp);
    Match "match": row(&[], "d").convergence(Mask);
    Redux "redux": row(&[], "d").convergence(Mask);
    Elect "elect": row(&[], "d").convergence(Mask);
    Activemask "activemask": row(&[], "d");
    Setmaxnreg "setmaxnreg": row(&[], "").convergence(Warp);
    Griddepcontrol "griddepcontrol": row(&[], "");
    Membar "membar": row(&[], ""); Fence "fence": row(&[], "");

    // Everything below reads sources and writes its first operand.
    Mov "mov": row(&[], "d"); Cvt "cvt": row(&[], "d"); Prmt "prmt": row(&[], "d");
    Selp "selp": row(&[], "d"); Slct "slct": row(&[], "d"); Set "set": row(&[], "d");
    Setp "setp": row(&[], "d");

    // Integers, with and without carry (9.7.1, 9.7.2)
    Add "add": row(&[], "d"); Addc "addc": row(&[], "d"); Sub "sub": row(&[], "d");
    Subc "subc": row(&[], "d"); Mul "mul": row(&[], "d"); Mul24 "mul24": row(&[], "d");
    Mad "mad": row(&[], "d"); Mad24 "mad24": row(&[], "d"); Madc "madc": row(&[], "d");
    Sad "sad": row(&[], "d"); Div "div": row(&[], "d"); Rem "rem": row(&[], "d"); Abs "abs": row(&[], "d");
    Neg "neg": row(&[], "d"); Min "min": row(&[], "d"); Max "max": row(&[], "d"); Popc "popc": row(&[], "d");
    Clz "clz": row(&[], "d"); Bfind "bfind": row(&[], "d"); Fns "fns": row(&[], "d");
    Brev "brev": row(&[], "d"); Bfe "bfe": row(&[], "d"); Bfi "bfi": row(&[], "d");
    Szext "szext": row(&[], "d"); Bmsk "bmsk": row(&[], "d"); Dp4a "dp4a": row(&[], "d");
    Dp2a "dp2a": row(&[], "d"); Clmad "clmad": row(&[], "d");

    // Floating point (9.7.3 to 9.7.5)
    Testp "testp": row(&[], "d"); Copysign "copysign": row(&[], "d"); Fma "fma": row(&[], "d");
    Rcp "rcp": row(&[], "d"); Sqrt "sqrt": row(&[], "d"); Rsqrt "rsqrt": row(&[], "d");
    Sin "sin": row(&[], "d"); Cos "cos": row(&[], "d"); Lg2 "lg2": row(&[], "d"); Ex2 "ex2": row(&[], "d");
    Tanh "tanh": row(&[], "d");

    // Logic and shifts (9.7.8)
    And "and": row(&[], "d"); Or "or": row(&[], "d"); Xor "xor": row(&[], "d"); Not "not": row(&[], "d");
    Cnot "cnot": row(&[], "d"); Lop3 "lop3": row(&[], "d"); Shl "shl": row(&[], "d");
    Shr "shr": row(&[], "d"); Shf "shf": row(&[], "d");

    // Video (9.7.17, 9.7.18)
    Vadd "vadd": row(&[], "d"); Vsub "vsub": row(&[], "d"); Vabsdiff "vabsdiff": row(&[], "d");
    Vmin "vmin": row(&[], "d"); Vmax "vmax": row(&[], "d"); Vshl "vshl": row(&[], "d");
    Vshr "vshr": row(&[], "d"); Vmad "vmad": row(&[], "d"); Vset "vset": row(&[], "d");
    Vadd2 "vadd2": row(&[], "d"); Vsub2 "vsub2": row(&[], "d"); Vavrg2 "vavrg2": row(&[], "d");
    Vabsdiff2 "vabsdiff2": row(&[], "d"); Vmin2 "vmin2": row(&[], "d"); Vmax2 "vmax2": row(&[], "d");
    Vset2 "vset2": row(&[], "d"); Vadd4 "vadd4": row(&[], "d"); Vsub4 "vsub4": row(&[], "d");
    Vavrg4 "vavrg4": row(&[], "d"); Vabsdiff4 "vabsdiff4": row(&[], "d"); Vmin4 "vmin4": row(&[], "d");
    Vmax4 "vmax4": row(&[], "d"); Vset4 "vset4": row(&[], "d");

    // The rest (9.7.19)
    Brkpt "brkpt": row(&[], ""); Nanosleep "nanosleep": row(&[], ""); Pmevent "pmevent": row(&[], "");
}

/// [`Mnemonic::is_plain`], by mnemonic.
static PLAIN: [bool; ALL.len()] = {
    let mut plain = [true; ALL.len()];
    let mut at = 0;
    while at < ROWS.len() {
        let mut form = 0;
        while form < ROWS[at].len() {
            plain[at] &= ROWS[at][form].is_plain();
            form += 1;
        }
        at += 1;
    }
    plain
};

impl Mnemonic {
    /// The mnemonic that is written so.
    #[inline]
    pub fn of(text: &str) -> Mnemonic {
        match NAMES.find(text) {
            Some(index) => ALL[index],
            None => Mnemonic::Unknown,
        }
    }

    /// How it is written; `None` for [`Mnemonic::Unknown`].
    pub fn text(self) -> Option<&'static str> {
        NAMES.text(self as usize)
    }

    /// Whether it does nothing but read its operands and write the first one,
    /// whatever its modifiers: arithmetic, comparisons, moves.
    #[inline]
    pub fn is_plain(self) -> bool {
        PLAIN.get(self as usize).copied().unwrap_or(false)
    }

    /// The rows of its forms.
    pub(super) fn rows(self) -> &'static [Row] {
        ROWS.get(self as usize).copied().unwrap_or_default()
    }
}

/// All rows, each with its mnemonic.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (Mnemonic, &'static Row)> {
    let mnemonics = ALL.iter().copied();
    mnemonics.flat_map(|mnemonic| mnemonic.rows().iter().map(move |row| (mnemonic, row)))
}

#[cfg(test)]
mod tests {
    use super::{ALL, Mnemonic};

    #[test]
    fn each_mnemonic_is_found_by_its_text() {
        for mnemonic in ALL {
            let text = mnemonic.text().expect("a known mnemonic has a text");
            assert_eq!(Mnemonic::of(text), *mnemonic);
            assert!(!mnemonic.rows().is_empty());
        }
        assert!(Mnemonic::Unknown.rows().is_empty());
        assert_eq!(Mnemonic::of("ldx"), Mnemonic::Unknown);
    }
}
