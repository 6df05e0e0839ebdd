//! Which bytes an access covers (PTX ISA, chapter 9: `ld`, `cp.async`,
//! `wmma`), and which of them a load uses.

use super::{Access, Mnemonic, Width};
use crate::{Instruction, Operand, OperandKind};

/// The bytes that an access covers, from its address on, and what determines
/// their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Known.
    Bytes(u64),
    /// Known, but none where this operand, a predicate or a negated one, holds.
    BytesUnless(u64, usize),
    /// In this operand of the instruction, a 32-bit register.
    Operand(usize),
    /// `step` times the 32-bit register that is this operand, shifted to the
    /// right by `shift`, plus `last`.
    Steps {
        /// What one unit of the operand adds: bytes, or as many parts of bytes as
        /// `shift` says.
        step: u64,
        /// Bits by which the product is shifted: of elements smaller than a byte.
        shift: u32,
        /// Bytes of the last row.
        last: u64,
        /// The operand: a distance between rows.
        operand: usize,
    },
}

impl Extent {
    /// Whether the number of bytes is in the text.
    pub fn is_constant(self) -> bool {
        matches!(self, Extent::Bytes(_) | Extent::BytesUnless(..))
    }
}

/// Bytes that an access covers; `None` if only a descriptor determines them.
/// `ignores_source`: the fourth operand of a `cp.async` is a predicate register,
/// which only its declaration shows ([`Width::CopySource`]).
pub fn extent(
    instruction: &Instruction<'_>,
    access: &Access,
    ignores_source: bool,
) -> Option<Extent> {
    let operands = &instruction.operands;
    let integer = |operand: usize| match operands.get(operand)?.kind {
        OperandKind::Integer(value) => u64::try_from(value).ok(),
        _ => None,
    };
    let is_name = |operand: usize| {
        matches!(
            operands.get(operand).map(|o| &o.kind),
            Some(OperandKind::Name(_))
        )
    };
    let count = |operand: usize| match integer(operand) {
        Some(bytes) => Some(Extent::Bytes(bytes)),
        None => is_name(operand).then_some(Extent::Operand(operand)),
    };
    match access.width {
        Width::Bytes(bytes) => Some(Extent::Bytes(u64::from(bytes))),
        Width::Operand(operand) => count(operand),
        Width::CopySource { size, source } => {
            if ignores_source {
                return Some(Extent::BytesUnless(integer(size)?, source));
            }
            match count(source)? {
                Extent::Bytes(bytes) => Some(Extent::Bytes(bytes.min(integer(size)?))),
                register => Some(register),
            }
        }
        Width::Matrix {
            rows,
            row_bits,
            element_bits,
            stride,
        } => {
            let last = u64::from(row_bits).div_ceil(8);
            let gaps = u64::from(rows).saturating_sub(1);
            let Some(operand) = stride else {
                return Some(Extent::Bytes(gaps.checked_mul(last)?.checked_add(last)?));
            };
            // Rows begin at bytes, whatever the size of an element is.
            let bits = gaps * u64::from(element_bits);
            let shift = 3 - bits.trailing_zeros().min(3);
            match integer(operand) {
                Some(stride) => {
                    let gaps = stride.checked_mul(bits)? / 8;
                    Some(Extent::Bytes(gaps.checked_add(last)?))
                }
                None => is_name(operand).then_some(Extent::Steps {
                    step: bits >> (3 - shift),
                    shift,
                    last,
                    operand,
                }),
            }
        }
        Width::Descriptor => None,
    }
}

/// The bytes of a load that the program uses: `_` elements of a vector are
/// not read (PTX ISA, `ld`), and bytes outside `.pragma "used_bytes_mask"` are
/// read only because the compiler widened the load. `attached`: the text of the
/// pragmas that stand directly before the instruction.
pub fn used_bytes(instruction: &Instruction<'_>, bytes: u64, attached: &str) -> (u64, u64) {
    let (mut from, mut to) = (0, bytes);
    if !matches!(instruction.opcode.mnemonic(), Mnemonic::Ld | Mnemonic::Ldu) {
        return (from, to);
    }
    if let Some(OperandKind::Vector(elements)) = instruction.operands.first().map(|o| &o.kind)
        && let Some(each) = instruction
            .opcode
            .types()
            .last()
            .map(|ty| u64::from(ty.bytes()))
    {
        let used = |o: &Operand<'_>| o.kind != OperandKind::Sink;
        if let (Some(first), Some(last)) = (
            elements.iter().position(used),
            elements.iter().rposition(used),
        ) {
            (from, to) = (first as u64 * each, bytes.min((last as u64 + 1) * each));
        }
    }
    if let Some((_, mask)) = attached.split_once("used_bytes_mask") {
        let mask = mask.trim_start().trim_start_matches("0x");
        let end = mask
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(mask.len());
        if let Ok(mask @ 1..) = u64::from_str_radix(&mask[..end], 16) {
            from = from.max(u64::from(mask.trailing_zeros()));
            to = to.min(64 - u64::from(mask.leading_zeros()));
        }
    }
    if from < to { (from, to) } else { (0, bytes) }
}

#[cfg(test)]
mod tests {
    use super::{Extent, extent};
    use crate::table::classify;

    /// What the only access of one instruction covers.
    fn of(instruction: &str) -> Option<Extent> {
        let text = format!(
            ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n{instruction}\nret;\n}}\n"
        );
        let module = crate::parse(&text).ok()?;
        let function = module.functions().next()?;
        function.statements().find_map(|(_, statement)| {
            let crate::Statement::Instruction(instruction) = statement else {
                return None;
            };
            extent(instruction, classify(instruction)?.accesses.first()?, false)
        })
    }

    /// Rows of a matrix begin at bytes; the distance between them is counted in
    /// elements, of which eight may be in a byte.
    #[test]
    fn rows_of_small_elements_have_a_distance() {
        let steps = |step, shift, last| {
            Some(Extent::Steps {
                step,
                shift,
                last,
                operand: 2,
            })
        };
        let bits = "wmma.load.a.sync.aligned.row.m8n8k128.global.b1 {%r1}, [%rd1]";
        assert_eq!(of(&format!("{bits}, %r9;")), steps(7, 3, 16));
        assert_eq!(
            of(&format!("{bits}, 256;")),
            Some(Extent::Bytes(7 * 32 + 16))
        );
        let quarters = "wmma.load.b.sync.aligned.col.m8n8k32.global.u4 {%r1}, [%rd1]";
        assert_eq!(of(&format!("{quarters}, %r9;")), steps(7, 1, 16));
        assert_eq!(
            of(&format!("{quarters}, 32;")),
            Some(Extent::Bytes(7 * 16 + 16))
        );
        let bytes = "wmma.load.b.sync.aligned.col.m8n32k16.global.u8 {%r1}, [%rd1]";
        assert_eq!(of(&format!("{bytes}, %r9;")), steps(31, 0, 16));
        let halves = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1}, [%rd1]";
        assert_eq!(of(&format!("{halves}, %r9;")), steps(30, 0, 32));
    }
}
