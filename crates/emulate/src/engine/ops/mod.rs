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
pub(crate) mod runtime;
pub(crate) mod special;
pub(crate) mod stack;
pub(crate) mod surface;
pub(crate) mod sync;
pub(crate) mod texture;
pub(crate) mod video;
pub(crate) mod wmma;

use super::decode::{Decoder, Ins, Problem, unsupported};
use ptx::Type;

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
/// As `by_integer`, for operations that see only bits.
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
    match x.base {
        "mov" | "selp" | "slct" | "cvta" | "isspacep" | "prefetch" | "prefetchu"
        | "applypriority" | "discard" | "createpolicy" | "getctarank" | "mapa" => {
            moves::decode(d, x)
        }
        "add" | "sub" | "mul" | "fma" | "mad" | "neg" | "abs" | "min" | "max" | "ex2" | "tanh"
            if half =>
        {
            half::decode(d, x)
        }
        "add" | "sub" | "mul" | "mad" | "div" | "min" | "max" | "neg" | "abs" if float => {
            float::decode(d, x)
        }
        "fma" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh" | "copysign" => {
            float::decode(d, x)
        }
        "add" | "sub" | "mul" | "mad" | "div" | "rem" | "min" | "max" | "neg" | "abs" | "addc"
        | "subc" | "madc" | "mul24" | "mad24" | "sad" => integer::decode(d, x),
        "and" | "or" | "xor" | "not" | "cnot" | "lop3" | "shl" | "shr" | "shf" | "prmt" | "bfe"
        | "bfi" | "bfind" | "popc" | "clz" | "brev" | "fns" | "bmsk" | "szext" | "dp4a"
        | "dp2a" => bits::decode(d, x),
        "setp" | "set" | "testp" => compare::decode(d, x),
        "cvt" => convert::decode(d, x),
        "ld" | "ldu" | "st" => memory::decode(d, x),
        "atom" | "red" => atomic::decode(d, x),
        "bra" | "brx" | "ret" | "exit" | "trap" | "brkpt" | "call" => control::decode(d, x),
        "bar" | "barrier" | "membar" | "fence" | "nanosleep" | "pmevent" | "griddepcontrol" => {
            barrier::decode(d, x)
        }
        "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => sync::decode(d, x),
        "cp" if x.has("async") => asynchronous::decode_copy(d, x),
        "mbarrier" => asynchronous::decode_mbarrier(d, x),
        "alloca" | "stacksave" | "stackrestore" => stack::decode(d, x),
        "wmma" => wmma::decode(d, x),
        "tex" | "tld4" => texture::decode(d, x),
        "suld" | "sust" => surface::decode(d, x),
        "ldmatrix" | "stmatrix" | "mma" => matrix::decode(d, x),
        base if base.starts_with('v') && base != "vote" => video::decode(d, x),
        _ => unsupported("instruction"),
    }
}
