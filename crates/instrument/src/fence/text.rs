//! The text of fences. Each is directly before its access, and uses registers
//! of its own: ptxas merges equal computations.

use super::FenceForm;
use super::check::{self, Found};
use super::pointers::Anchor;
use crate::patch::line;
use model::layout::fence as layout;
use model::layout::fence::VARIABLE;
use std::fmt;

/// Registers of fences.
pub(super) mod register {
    /// The fenced address, by the number of its operand among the addresses of
    /// its instruction.
    pub const ADDRESS: &str = "%__rf_a";
    /// Halves of an address.
    pub const LOW: &str = "%__rf_lo";
    /// See `LOW`.
    pub const HIGH: &str = "%__rf_hi";
    /// Upper halves of the partition's base and mask.
    pub const BASE_HIGH: &str = "%__rf_base";
    /// See `BASE_HIGH`.
    pub const MASK_HIGH: &str = "%__rf_mask";
    /// The partition's base, size and reciprocal.
    pub const BASE: &str = "%__rf_first";
    /// See `BASE`.
    pub const SIZE: &str = "%__rf_size";
    /// See `BASE`.
    pub const RECIPROCAL: &str = "%__rf_reciprocal";
    /// Shared memory that the system reserves.
    pub const RESERVED: &str = "%__rf_low";
    /// Bytes of shared memory of the program's.
    pub const TOTAL: &str = "%__rf_total";
    /// One past its last byte.
    pub const END: &str = "%__rf_end";
    /// An address in shared memory.
    pub const SHARED: &str = "%__rf_s";
    /// The fenced address of a group of accesses in shared memory, by its number.
    pub const GROUP: &str = "%__rf_group";
    /// The last one that an access may have.
    pub const LIMIT: &str = "%__rf_limit";
    /// The record of what is found.
    pub const FOUND: &str = "%__rf_found";
    /// The address lies outside of the partition.
    pub const OUTSIDE: &str = "%__rf_outside";
    /// The same, and the access executes.
    pub const RECORDED: &str = "%__rf_record";
    /// A pointer before its fence.
    pub const RAW: &str = "%__rf_r";
    /// Scratch of 64 bits.
    pub const WIDE: &str = "%__rf_t";
    /// Scratch of 64 bits.
    pub const OTHER: &str = "%__rf_u";
    /// The address of a variable.
    pub const VARIABLE: &str = "%__rf_f";
    /// The index of a jump.
    pub const INDEX: &str = "%__rf_i";
    /// The access stays in shared memory, which is large enough.
    pub const GO: &str = "%__rf_go";
    /// The distance between the rows of a matrix.
    pub const ROWS: &str = "%__rf_rows";
    /// The bytes from the first row of a matrix to the end of the last one.
    pub const SPAN: &str = "%__rf_span";
    /// A mask of lanes.
    pub const LANES: &str = "%__rf_lanes";
    /// The address lies in a window.
    pub const INSIDE: &str = "%__rf_p";
}

use register::*;

/// Operands that an instruction has addresses in, at most.
const ADDRESSES: usize = 4;

/// What the fences of a body use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    /// Registers for addresses.
    pub addresses: bool,
    /// The partition.
    pub partition: bool,
    /// What the block has of shared memory.
    pub shared: bool,
    /// How many groups of accesses in shared memory there are.
    pub groups: usize,
    /// The register for masks of lanes.
    pub lanes: bool,
    /// The registers for rows of matrices.
    pub rows: bool,
}

/// Declarations, and what is loaded once, at the top of a body.
pub(super) fn head(form: FenceForm, uses: Uses, out: &mut String) {
    if uses.lanes {
        line!(out, "\n\t.reg .b32 {LANES};");
    }
    if !uses.addresses {
        return;
    }
    out.push_str("\n\t");
    if uses.rows {
        line!(out, ".reg .b32 {ROWS}, {SPAN};");
    }
    line!(out, ".reg .b64 {ADDRESS}<{ADDRESSES}>;");
    line!(
        out,
        ".reg .b64 {RAW}, {WIDE}, {OTHER}, {};",
        register::VARIABLE
    );
    line!(out, ".reg .b32 {INDEX};");
    line!(out, ".reg .pred {GO}, {INSIDE};");
    if uses.partition {
        partition(form, out);
    }
    if uses.shared {
        line!(
            out,
            ".reg .b32 {RESERVED}, {TOTAL}, {END}, {SHARED}, {LIMIT};"
        );
        if uses.groups > 0 {
            line!(out, ".reg .b64 {GROUP}<{}>;", uses.groups);
        }
        let at = layout::RESERVED_SHARED;
        line!(out, "ld.const.b32 {RESERVED}, [{VARIABLE}+{at}];");
        line!(out, "mov.u32 {TOTAL}, %total_smem_size;");
        line!(out, "add.s32 {END}, {TOTAL}, {RESERVED};");
    }
}

/// Loads the words of the table that describe the partition.
fn partition(form: FenceForm, out: &mut String) {
    match form {
        FenceForm::Mask => {
            line!(out, ".reg .b32 {LOW}, {HIGH}, {BASE_HIGH}, {MASK_HIGH};");
            for (to, at) in [
                (BASE_HIGH, layout::BASE_HIGH),
                (MASK_HIGH, layout::MASK_HIGH),
            ] {
                line!(out, "ld.const.b32 {to}, [{VARIABLE}+{at}];");
            }
        }
        FenceForm::Modulo => {
            line!(out, ".reg .b64 {BASE}, {SIZE}, {RECIPROCAL};");
            for (to, at) in [
                (BASE, layout::BASE),
                (SIZE, layout::SIZE),
                (RECIPROCAL, layout::RECIPROCAL),
            ] {
                line!(out, "ld.const.b64 {to}, [{VARIABLE}+{at}];");
            }
        }
        FenceForm::Check => check::head(out),
    }
}

/// How many bytes an access has, for a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Bytes(u64),
    /// As many as [`SPAN`] holds.
    Span,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Bytes(bytes) => bytes.fmt(f),
            Extent::Span => f.write_str(SPAN),
        }
    }
}

/// What an access is, as far as a fence depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accessed {
    /// Number of the operand among the instruction's addresses.
    pub number: usize,
    /// Bytes, at most.
    pub bytes: u64,
    /// [`SPAN`] holds how many there are.
    pub has_span: bool,
    /// What the address must be a multiple of.
    pub alignment: u32,
    /// A generic address of it may lead to local memory.
    pub may_be_local: bool,
}

impl Accessed {
    /// How many bytes it has.
    pub(super) fn extent(self) -> Extent {
        match self.has_span {
            true => Extent::Span,
            false => Extent::Bytes(self.bytes),
        }
    }
}

/// A matrix in memory whose rows have a distance that a register holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    /// The operand that is the register, and its name.
    pub operand: usize,
    pub register: &'a str,
    /// Bytes that one unit of the distance adds, and those of the last row.
    pub step: u64,
    pub last: u64,
    /// The most units, and what they are a multiple of where all rows are aligned.
    pub most: u64,
    pub multiple: u32,
}

impl Rows<'_> {
    /// Bytes at most.
    pub(super) fn bytes(self) -> u64 {
        self.most * self.step + self.last
    }
}

/// Bounds the distance between rows.
pub(super) fn rows(rows: Rows<'_>, out: &mut String) {
    let Rows {
        register,
        most,
        multiple,
        ..
    } = rows;
    line!(out, "and.b32 {ROWS}, {register}, -{multiple};");
    line!(out, "min.u32 {ROWS}, {ROWS}, {most};");
}

/// Computes the bytes of rows.
pub(super) fn span(Rows { step, last, .. }: Rows<'_>, out: &mut String) {
    line!(out, "mad.lo.u32 {SPAN}, {ROWS}, {step}, {last};");
}

/// A variable that an address was derived from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Within<'a> {
    pub name: &'a str,
    pub size: u64,
}

/// An address that is forced into the partition: from the register `from` to
/// the access's own.
pub(super) fn global(
    form: FenceForm,
    from: &str,
    accessed: Accessed,
    found: Found<'_>,
    out: &mut String,
) {
    let Accessed {
        number, alignment, ..
    } = accessed;
    match form {
        FenceForm::Mask => {
            line!(out, "mov.b64 {{{LOW}, {HIGH}}}, {from};");
            line!(
                out,
                "lop3.b32 {HIGH}, {HIGH}, {MASK_HIGH}, {BASE_HIGH}, 0xea;"
            );
            if alignment > 1 {
                line!(out, "and.b32 {LOW}, {LOW}, -{alignment};");
            }
            line!(out, "mov.b64 {ADDRESS}{number}, {{{LOW}, {HIGH}}};");
        }
        FenceForm::Modulo => {
            line!(out, "sub.s64 {OTHER}, {from}, {BASE};");
            line!(out, "mul.hi.u64 {ADDRESS}{number}, {OTHER}, {RECIPROCAL};");
            line!(
                out,
                "mul.lo.s64 {ADDRESS}{number}, {ADDRESS}{number}, {SIZE};"
            );
            line!(out, "sub.s64 {OTHER}, {OTHER}, {ADDRESS}{number};");
            line!(out, "sub.s64 {ADDRESS}{number}, {OTHER}, {SIZE};");
            line!(out, "min.u64 {OTHER}, {OTHER}, {ADDRESS}{number};");
            if alignment > 1 {
                line!(out, "and.b64 {OTHER}, {OTHER}, -{alignment};");
            }
            line!(out, "add.s64 {ADDRESS}{number}, {OTHER}, {BASE};");
        }
        FenceForm::Check => {
            check::global(from, &format!("{ADDRESS}{number}"), alignment, found, out);
        }
    }
}

/// A pointer behind the instruction that made it in [`RAW`].
pub(super) fn anchor(form: FenceForm, anchor: Anchor<'_>, out: &mut String) {
    let is_kept = anchor.is_aligned && form == FenceForm::Mask;
    let accessed = Accessed {
        number: 0,
        bytes: 0,
        has_span: false,
        alignment: if is_kept { 1 } else { anchor.alignment },
        may_be_local: false,
    };
    out.push_str("\n\t");
    // (The form that checks looks at each access.)
    let found = Found {
        site: 0,
        guard: None,
        is_generic: false,
    };
    global(form, RAW, accessed, found, out);
    line!(out, "mov.b64 {}, {ADDRESS}0;", anchor.register);
}

/// An address near the partition that is not aligned yet.
pub(super) fn align(from: &str, accessed: Accessed, out: &mut String) {
    let Accessed {
        number, alignment, ..
    } = accessed;
    line!(out, "and.b64 {ADDRESS}{number}, {from}, -{alignment};");
}

/// The first value of a pointer that may be read before it has another.
pub(super) fn initial(pointer: &str, out: &mut String) {
    line!(
        out,
        "ld.const.b64 {pointer}, [{VARIABLE}+{}];",
        layout::BASE
    );
}

/// Whether the block has so much shared memory; and a predicate of the program's
/// holds, if there is one.
pub(super) fn room(bytes: Extent, also: Option<&str>, to: &str, out: &mut String) {
    match also {
        None => line!(out, "setp.ge.u32 {to}, {TOTAL}, {bytes};"),
        Some(also) => line!(out, "setp.ge.and.u32 {to}, {TOTAL}, {bytes}, {also};"),
    }
}

/// Retires the thread where the block has less shared memory: natively one of the
/// accesses that follow would end the kernel.
pub(super) fn enough(bytes: u64, out: &mut String) {
    line!(out, "setp.lt.u32 {GO}, {TOTAL}, {bytes};");
    line!(out, "@{GO} exit;");
}

/// Forces the address in [`SHARED`] into what the block has.
pub(super) fn shared(accessed: Accessed, out: &mut String) {
    let (bytes, alignment) = (accessed.extent(), accessed.alignment);
    line!(out, "max.u32 {SHARED}, {SHARED}, {RESERVED};");
    line!(out, "sub.s32 {LIMIT}, {END}, {bytes};");
    line!(out, "min.u32 {SHARED}, {SHARED}, {LIMIT};");
    if alignment > 1 {
        line!(out, "and.b32 {SHARED}, {SHARED}, -{alignment};");
    }
}

/// Forces an address in the space of a variable into the variable: from the
/// register `from` to `to`.
pub(super) fn variable(
    within: Within<'_>,
    from: &str,
    to: &str,
    accessed: Accessed,
    out: &mut String,
) {
    let Accessed {
        bytes, alignment, ..
    } = accessed;
    line!(out, "mov.u64 {}, {};", register::VARIABLE, within.name);
    line!(out, "sub.s64 {to}, {from}, {};", register::VARIABLE);
    line!(out, "min.u64 {to}, {to}, {};", within.size - bytes);
    if alignment > 1 {
        line!(out, "and.b64 {to}, {to}, -{alignment};");
    }
    line!(out, "add.s64 {to}, {to}, {};", register::VARIABLE);
}

/// Forces an address into that of several variables which it is in, or else into the first:
/// from the register `from` to `to`.
pub(super) fn one_of(
    all: &[Within<'_>],
    from: &str,
    to: &str,
    accessed: Accessed,
    out: &mut String,
) {
    let Some((first, others)) = all.split_first() else {
        return;
    };
    variable(*first, from, to, accessed, out);
    for other in others {
        variable(*other, from, OTHER, accessed, out);
        line!(out, "sub.s64 {0}, {from}, {0};", register::VARIABLE);
        line!(
            out,
            "setp.le.u64 {INSIDE}, {}, {};",
            register::VARIABLE,
            other.size - accessed.bytes
        );
        line!(out, "selp.b64 {to}, {OTHER}, {to}, {INSIDE};");
    }
}

/// An address that may lie in any space, in [`WIDE`]: where it lies in shared
/// memory, or in a frame if there is one, it is forced into that, else into the
/// partition.
pub(super) fn generic(
    form: FenceForm,
    frame: Option<Within<'_>>,
    accessed: Accessed,
    found: Found<'_>,
    out: &mut String,
) {
    global(form, WIDE, accessed, found, out);
    let number = accessed.number;
    line!(out, "isspacep.shared {INSIDE}, {WIDE};");
    room(accessed.extent(), Some(INSIDE), INSIDE, out);
    line!(out, "cvta.to.shared.u64 {OTHER}, {WIDE};");
    line!(out, "cvt.u32.u64 {SHARED}, {OTHER};");
    shared(accessed, out);
    line!(out, "cvt.u64.u32 {OTHER}, {SHARED};");
    line!(out, "cvta.shared.u64 {OTHER}, {OTHER};");
    line!(
        out,
        "selp.b64 {ADDRESS}{number}, {OTHER}, {ADDRESS}{number}, {INSIDE};"
    );
    if let Some(frame) = frame {
        line!(out, "isspacep.local {INSIDE}, {WIDE};");
        line!(out, "cvta.to.local.u64 {OTHER}, {WIDE};");
        variable(frame, OTHER, OTHER, accessed, out);
        line!(out, "cvta.local.u64 {OTHER}, {OTHER};");
        line!(
            out,
            "selp.b64 {ADDRESS}{number}, {OTHER}, {ADDRESS}{number}, {INSIDE};"
        );
    }
}

/// The address of a variable in the partition, from the table.
pub(super) fn table(index: usize, to: &str, out: &mut String) {
    let at = layout::VARIABLES as usize + 8 * index;
    line!(out, "ld.const.b64 {to}, [{VARIABLE}+{at}];");
}

/// Retires the thread, after counting it at an offset of the partition, in the
/// place of an instruction with this guard.
pub(super) fn retire(guard: &str, counter: u32, out: &mut String) {
    line!(out, "ld.const.b64 {WIDE}, [{VARIABLE}+{}];", layout::BASE);
    line!(out, "{guard}red.global.add.u64 [{WIDE}+{counter}], 1;");
    crate::patch::put(out, format_args!("{guard}exit;"));
}

/// Forces the index of a jump into its table, of so many targets.
pub(super) fn index(from: &str, targets: usize, out: &mut String) {
    line!(out, "min.u32 {INDEX}, {from}, {};", targets - 1);
}

/// Puts the lane that executes it into a mask of lanes.
pub(super) fn lanes(from: &str, out: &mut String) -> &'static str {
    line!(out, "mov.u32 {LANES}, %lanemask_eq;");
    line!(out, "or.b32 {LANES}, {LANES}, {from};");
    LANES
}
