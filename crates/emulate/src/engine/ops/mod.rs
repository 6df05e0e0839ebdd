//! Families of instructions. Each decodes its opcodes and holds the handlers
//! that execute them. The arithmetic itself is in [`crate::arith`].

pub(crate) mod asynchronous;
pub(crate) mod atomic;
pub(crate) mod barrier;
pub(crate) mod bits;
pub(crate) mod compare;
pub(crate) mod control;
pub(crate) mod convert;
pub(crate) mod device_runtime;
pub(crate) mod float;
pub(crate) mod half;
pub(crate) mod image;
pub(crate) mod integer;
pub(crate) mod matrix;
pub(crate) mod memory;
pub(crate) mod moves;
mod quarters;
pub(crate) mod runtime;
mod sparse;
pub(crate) mod special;
pub(crate) mod stack;
pub(crate) mod surface;
pub(crate) mod sync;
pub(crate) mod texture;
pub(crate) mod video;
pub(crate) mod wmma;

use super::decode::{Decoder, Ins, Problem, unsupported};
use ptx::{Mnemonic, Modifier, Type};

/// `$e` with `$t` bound to the Rust type of an integer type.
macro_rules! by_integer {
    ($ty:expr, $t:ident => $e:expr) => {
        match $ty {
            ptx::Type::U16 | ptx::Type::B16 => {
                type $t = u16;
                $e
            }
            ptx::Type::S16 => {
                type $t = i16;
                $e
            }
            ptx::Type::U32 | ptx::Type::B32 => {
                type $t = u32;
                $e
            }
            ptx::Type::S32 => {
                type $t = i32;
                $e
            }
            ptx::Type::U64 | ptx::Type::B64 => {
                type $t = u64;
                $e
            }
            ptx::Type::S64 => {
                type $t = i64;
                $e
            }
            other => return $crate::engine::decode::unsupported(format!("type {other:?} here")),
        }
    };
}
/// As `by_integer`, for operations on untyped bits.
macro_rules! by_width {
    ($class:expr, $t:ident => $e:expr) => {
        match $class {
            $crate::engine::inst::Class::B16 => {
                type $t = u16;
                $e
            }
            $crate::engine::inst::Class::B32 => {
                type $t = u32;
                $e
            }
            $crate::engine::inst::Class::B64 => {
                type $t = u64;
                $e
            }
            other => {
                return $crate::engine::decode::unsupported(format!("{other:?} registers here"))
            }
        }
    };
}
pub(crate) use {by_integer, by_width};

/// Emit what executes an instruction.
#[expect(clippy::too_many_lines, reason = "a table: an arm for each opcode")]
pub(crate) fn decode<'a>(d: &mut Decoder<'a>, x: &Ins<'a>) -> Result<(), Problem> {
    let float = matches!(
        x.types.last(),
        Some(
            Type::F16
                | Type::F16x2
                | Type::BF16
                | Type::BF16x2
                | Type::F32
                | Type::F32x2
                | Type::F64
        )
    );
    let half = matches!(
        x.types.last(),
        Some(Type::F16 | Type::F16x2 | Type::BF16 | Type::BF16x2)
    );
    match x.mnemonic {
        Mnemonic::Mov
        | Mnemonic::Selp
        | Mnemonic::Slct
        | Mnemonic::Cvta
        | Mnemonic::Isspacep
        | Mnemonic::Prefetch
        | Mnemonic::Prefetchu
        | Mnemonic::Applypriority
        | Mnemonic::Discard
        | Mnemonic::Createpolicy
        | Mnemonic::Getctarank
        | Mnemonic::Mapa => moves::decode(d, x),
        Mnemonic::Add
        | Mnemonic::Sub
        | Mnemonic::Mul
        | Mnemonic::Fma
        | Mnemonic::Mad
        | Mnemonic::Neg
        | Mnemonic::Abs
        | Mnemonic::Min
        | Mnemonic::Max
        | Mnemonic::Ex2
        | Mnemonic::Tanh
            if half =>
        {
            half::decode(d, x)
        }
        Mnemonic::Add
        | Mnemonic::Sub
        | Mnemonic::Mul
        | Mnemonic::Mad
        | Mnemonic::Div
        | Mnemonic::Min
        | Mnemonic::Max
        | Mnemonic::Neg
        | Mnemonic::Abs
            if float =>
        {
            float::decode(d, x)
        }
        Mnemonic::Fma
        | Mnemonic::Rcp
        | Mnemonic::Sqrt
        | Mnemonic::Rsqrt
        | Mnemonic::Sin
        | Mnemonic::Cos
        | Mnemonic::Lg2
        | Mnemonic::Ex2
        | Mnemonic::Tanh
        | Mnemonic::Copysign => float::decode(d, x),
        Mnemonic::Add
        | Mnemonic::Sub
        | Mnemonic::Mul
        | Mnemonic::Mad
        | Mnemonic::Div
        | Mnemonic::Rem
        | Mnemonic::Min
        | Mnemonic::Max
        | Mnemonic::Neg
        | Mnemonic::Abs
        | Mnemonic::Addc
        | Mnemonic::Subc
        | Mnemonic::Madc
        | Mnemonic::Mul24
        | Mnemonic::Mad24
        | Mnemonic::Sad => integer::decode(d, x),
        Mnemonic::And
        | Mnemonic::Or
        | Mnemonic::Xor
        | Mnemonic::Not
        | Mnemonic::Cnot
        | Mnemonic::Lop3
        | Mnemonic::Shl
        | Mnemonic::Shr
        | Mnemonic::Shf
        | Mnemonic::Prmt
        | Mnemonic::Bfe
        | Mnemonic::Bfi
        | Mnemonic::Bfind
        | Mnemonic::Popc
        | Mnemonic::Clz
        | Mnemonic::Brev
        | Mnemonic::Fns
        | Mnemonic::Bmsk
        | Mnemonic::Szext
        | Mnemonic::Dp4a
        | Mnemonic::Dp2a => bits::decode(d, x),
        Mnemonic::Setp | Mnemonic::Set | Mnemonic::Testp => compare::decode(d, x),
        Mnemonic::Cvt => convert::decode(d, x),
        Mnemonic::Ld | Mnemonic::Ldu | Mnemonic::St => memory::decode(d, x),
        Mnemonic::Atom | Mnemonic::Red => atomic::decode(d, x),
        Mnemonic::Bra
        | Mnemonic::Brx
        | Mnemonic::Ret
        | Mnemonic::Exit
        | Mnemonic::Trap
        | Mnemonic::Brkpt
        | Mnemonic::Call => control::decode(d, x),
        Mnemonic::Bar
        | Mnemonic::Barrier
        | Mnemonic::Membar
        | Mnemonic::Fence
        | Mnemonic::Nanosleep
        | Mnemonic::Pmevent
        | Mnemonic::Setmaxnreg
        | Mnemonic::Griddepcontrol => barrier::decode(d, x),
        Mnemonic::Shfl
        | Mnemonic::Vote
        | Mnemonic::Match
        | Mnemonic::Redux
        | Mnemonic::Activemask
        | Mnemonic::Elect => sync::decode(d, x),
        Mnemonic::Cp if x.has(Modifier::Async) => asynchronous::decode_copy(d, x),
        Mnemonic::Mbarrier => asynchronous::decode_mbarrier(d, x),
        Mnemonic::Alloca | Mnemonic::Stacksave | Mnemonic::Stackrestore => stack::decode(d, x),
        Mnemonic::Wmma => wmma::decode(d, x),
        Mnemonic::Tex | Mnemonic::Tld4 => texture::decode(d, x),
        Mnemonic::Suld | Mnemonic::Sust => surface::decode(d, x),
        Mnemonic::Ldmatrix | Mnemonic::Stmatrix | Mnemonic::Movmatrix | Mnemonic::Mma => {
            matrix::decode(d, x)
        }
        Mnemonic::Vadd
        | Mnemonic::Vsub
        | Mnemonic::Vabsdiff
        | Mnemonic::Vmin
        | Mnemonic::Vmax
        | Mnemonic::Vset
        | Mnemonic::Vshl
        | Mnemonic::Vshr
        | Mnemonic::Vmad
        | Mnemonic::Vadd2
        | Mnemonic::Vsub2
        | Mnemonic::Vavrg2
        | Mnemonic::Vabsdiff2
        | Mnemonic::Vmin2
        | Mnemonic::Vmax2
        | Mnemonic::Vset2
        | Mnemonic::Vadd4
        | Mnemonic::Vsub4
        | Mnemonic::Vavrg4
        | Mnemonic::Vabsdiff4
        | Mnemonic::Vmin4
        | Mnemonic::Vmax4
        | Mnemonic::Vset4 => video::decode(d, x),
        Mnemonic::Unknown => d.undefined("instruction that PTX does not have"),
        _ => unsupported("instruction"),
    }
}
