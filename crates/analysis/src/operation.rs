//! What an instruction computes, if that is arithmetic of integers: one row an
//! instruction, and the arithmetic itself for numbers. Low bits and ranges are
//! analyses of the same rows.

use ptx::{Mnemonic, Modifier, Opcode, Type};
use serde::{Deserialize, Serialize};

/// Bits of a register.
pub(crate) type Width = u8;

/// How an instruction reads the bits of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum View {
    Signed,
    Unsigned,
}

/// Which bits of a product are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Low,
    High,
    /// All, in a register of twice the width.
    Wide,
}

/// Arithmetic of two operands that is not linear in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Binary {
    Multiply,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight(View),
    Divide(View),
    Remainder(View),
    Minimum(View),
    Maximum(View),
}

/// What an instruction makes of its sources, from operand 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `mov`
    Copy,
    /// `cvt`
    Convert,
    /// `cvta`
    Space,
    Negate,
    Not,
    Absolute,
    Add,
    Subtract,
    Multiply(Part),
    MultiplyAdd(Part),
    Binary(Binary),
    /// `selp`
    Select,
    /// `bfe`: the second source is the first bit, the third the number of bits.
    Field(View),
}

impl Operation {
    /// The operation of an opcode, and how it reads its sources. `None` for
    /// opcodes without a row, and for those that truncate results.
    pub(crate) fn of(opcode: &Opcode<'_>) -> Option<(Operation, View, Width)> {
        if opcode.has_any(&[Modifier::Sat, Modifier::Relu]) {
            return None;
        }
        let (view, width) = integer(opcode.types().next()?)?;
        let part = || {
            opcode
                .modifiers()
                .iter()
                .find_map(|modifier| match modifier {
                    Modifier::Lo => Some(Part::Low),
                    Modifier::Hi => Some(Part::High),
                    Modifier::Wide => Some(Part::Wide),
                    _ => None,
                })
        };
        let operation = match opcode.mnemonic() {
            Mnemonic::Mov => Operation::Copy,
            Mnemonic::Cvt => Operation::Convert,
            Mnemonic::Cvta => Operation::Space,
            Mnemonic::Neg => Operation::Negate,
            Mnemonic::Not => Operation::Not,
            Mnemonic::Abs => Operation::Absolute,
            Mnemonic::Add => Operation::Add,
            Mnemonic::Sub => Operation::Subtract,
            Mnemonic::Mul => Operation::Multiply(part()?),
            Mnemonic::Mad => Operation::MultiplyAdd(part()?),
            Mnemonic::And => Operation::Binary(Binary::And),
            Mnemonic::Or => Operation::Binary(Binary::Or),
            Mnemonic::Xor => Operation::Binary(Binary::Xor),
            Mnemonic::Shl => Operation::Binary(Binary::ShiftLeft),
            Mnemonic::Shr => Operation::Binary(Binary::ShiftRight(view)),
            Mnemonic::Div => Operation::Binary(Binary::Divide(view)),
            Mnemonic::Rem => Operation::Binary(Binary::Remainder(view)),
            Mnemonic::Min => Operation::Binary(Binary::Minimum(view)),
            Mnemonic::Max => Operation::Binary(Binary::Maximum(view)),
            Mnemonic::Selp => Operation::Select,
            Mnemonic::Bfe => Operation::Field(view),
            _ => return None,
        };
        Some((operation, view, width))
    }
}

impl Binary {
    /// The result for two numbers in registers of `width` bits, as a signed
    /// one. `None` for divisions whose result is not defined.
    pub(crate) fn fold(self, a: i64, b: i64, width: Width) -> Option<i64> {
        let (a, b) = (i128::from(a), i128::from(b));
        let as_read = |view, value| as_read(value, view, width);
        // PTX reads 32 bits, and takes more bits than there are for all.
        let by = (b & 0xffff_ffff).min(127) as u32;
        let result = match self {
            Binary::Multiply => a * b,
            Binary::And => a & b,
            Binary::Or => a | b,
            Binary::Xor => a ^ b,
            Binary::ShiftLeft if by >= u32::from(width) => 0,
            Binary::ShiftLeft => a << by,
            Binary::ShiftRight(view) => as_read(view, a) >> by,
            Binary::Divide(view) => {
                let quotient = as_read(view, a).checked_div(as_read(view, b))?;
                return (as_read(view, quotient) == quotient).then(|| wrap(quotient, width));
            }
            Binary::Remainder(view) => as_read(view, a).checked_rem(as_read(view, b))?,
            Binary::Minimum(view) => as_read(view, a).min(as_read(view, b)),
            Binary::Maximum(view) => as_read(view, a).max(as_read(view, b)),
        };
        Some(wrap(result, width))
    }
}

/// The number in the signed range that is congruent.
pub(crate) fn wrap(value: i128, width: Width) -> i64 {
    let shift = 128 - u32::from(width);
    ((value << shift) >> shift) as i64
}

/// What a register of `width` bits holds, as a number of one kind.
pub(crate) fn as_read(value: i128, view: View, width: Width) -> i128 {
    match view {
        View::Signed => i128::from(wrap(value, width)),
        View::Unsigned => value & ((1 << width) - 1),
    }
}

/// How an instruction of this type reads its operands; `None` for what is no
/// integer.
pub(crate) fn integer(ty: Type) -> Option<(View, Width)> {
    Some(match ty {
        Type::S8 => (View::Signed, 8),
        Type::S16 => (View::Signed, 16),
        Type::S32 => (View::Signed, 32),
        Type::S64 => (View::Signed, 64),
        Type::B8 | Type::U8 => (View::Unsigned, 8),
        Type::B16 | Type::U16 => (View::Unsigned, 16),
        Type::B32 | Type::U32 => (View::Unsigned, 32),
        Type::B64 | Type::U64 => (View::Unsigned, 64),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(text: &str) -> Option<(Operation, View, Width)> {
        Operation::of(&Opcode::new(text, ptx::Span::default()))
    }

    #[test]
    fn what_has_a_row() {
        let wide = (Operation::Multiply(Part::Wide), View::Signed, 32);
        assert_eq!(operation("mul.wide.s32"), Some(wide));
        let shift = Operation::Binary(Binary::ShiftRight(View::Unsigned));
        assert_eq!(operation("shr.b16"), Some((shift, View::Unsigned, 16)));
        assert_eq!(operation("add.f32"), None);
        assert_eq!(operation("add.sat.s32"), None);
        assert_eq!(operation("min.relu.s32"), None);
        assert_eq!(operation("mul.s32"), None);
    }

    #[test]
    fn numbers_are_what_registers_hold() {
        let fold = |binary: Binary, a, b, width| binary.fold(a, b, width);
        let (signed, unsigned) = (View::Signed, View::Unsigned);
        assert_eq!(fold(Binary::Multiply, 1 << 20, 1 << 12, 32), Some(0));
        assert_eq!(fold(Binary::Multiply, i64::MAX, i64::MAX, 64), Some(1));
        assert_eq!(fold(Binary::Or, 0x80, 1, 8), Some(-127));
        assert_eq!(
            fold(Binary::ShiftLeft, 1, 31, 32),
            Some(i64::from(i32::MIN))
        );
        assert_eq!(fold(Binary::ShiftLeft, 1, 32, 32), Some(0));
        assert_eq!(fold(Binary::ShiftLeft, 1, -1, 64), Some(0));
        assert_eq!(fold(Binary::ShiftRight(signed), -8, 1, 32), Some(-4));
        assert_eq!(fold(Binary::ShiftRight(signed), -8, -1, 32), Some(-1));
        let half = i64::from(i32::MAX) - 3;
        assert_eq!(fold(Binary::ShiftRight(unsigned), -8, 1, 32), Some(half));
        assert_eq!(fold(Binary::Divide(signed), -7, 2, 32), Some(-3));
        assert_eq!(fold(Binary::Divide(unsigned), -1, 1, 32), Some(-1));
        assert_eq!(fold(Binary::Divide(signed), i64::MIN, -1, 64), None);
        assert_eq!(fold(Binary::Remainder(signed), -7, 2, 32), Some(-1));
        assert_eq!(fold(Binary::Remainder(unsigned), 7, 0, 32), None);
        assert_eq!(fold(Binary::Minimum(unsigned), -1, 3, 32), Some(3));
        assert_eq!(fold(Binary::Maximum(signed), -1, 3, 32), Some(3));
    }
}
