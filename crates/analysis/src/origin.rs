//! The lattice: what a value can be, as far as pointers go.

use crate::names::SymbolId;
use crate::ssa::ValueId;

/// Number of a root within a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RootId(pub u32);

/// A place where a pointer comes into being (a base pointer definition of
/// cuCatch, 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// Eight bytes of the parameters of the kernel, or of another function,
    /// as its caller set them.
    KernelParameter {
        /// Bytes from the start of the parameter block.
        offset: u32,
    },
    /// The address of a `.global` variable.
    Variable {
        /// The variable.
        symbol: SymbolId,
    },
    /// A value that appears on the device: loaded, returned, passed.
    Lookup {
        /// The value.
        value: ValueId,
    },
    /// The address of a variable in shared or constant memory, of the local
    /// frame of a function, or of a parameter of an entry.
    Whole {
        /// The variable.
        symbol: SymbolId,
    },
    /// The address of an object within the local frame of a function.
    Part {
        /// The frame.
        symbol: SymbolId,
        /// Bytes from the start of the frame.
        start: u32,
    },
    /// A pointer that the program gives bounds of its own (`ringfence.h`):
    /// from the value on, as many bytes as the program says.
    Declared {
        /// The value.
        value: ValueId,
    },
    /// The address, in the shared memory of another block of the cluster, of
    /// what the operand of a `mapa` points to in the own one.
    Mapped {
        /// What `mapa` made.
        value: ValueId,
    },
    /// Local memory that `alloca` made.
    Alloca {
        /// Its address.
        value: ValueId,
    },
    /// An element of an array that is a field of a struct, by debug
    /// information ([`crate::Field`]).
    Field {
        /// The value that the index makes.
        value: ValueId,
        /// What the field is part of.
        parent: RootId,
    },
    /// Something in shared memory.
    Shared,
    /// Something in local memory.
    Local,
    /// Something in constant memory.
    Const,
    /// A parameter of the entry or function itself, by address.
    ParameterWindow,
    /// Memory that the CUDA device runtime handed out (parameter buffers of
    /// launches from the device), which no host call ever names.
    System,
}

impl Root {
    /// Whether the root lies in global memory (as opposed to another window
    /// of the generic address space).
    pub fn is_global(self) -> bool {
        matches!(
            self,
            Root::KernelParameter { .. } | Root::Variable { .. } | Root::Lookup { .. }
        )
    }

    /// Whether the root lies in a window of the generic address space that
    /// has addresses of its own (`cvta`).
    pub fn is_in_window(self) -> bool {
        !self.is_global() && !matches!(self, Root::System)
    }

    /// The value that this root is, where it is one: each time the value is
    /// made, the root is another one.
    pub fn value(self) -> Option<ValueId> {
        match self {
            Root::Lookup { value }
            | Root::Declared { value }
            | Root::Mapped { value }
            | Root::Field { value, .. }
            | Root::Alloca { value } => Some(value),
            _ => None,
        }
    }
}

/// Where a value comes from.
///
/// `sure` means: known to be a pointer, not an integer of the same width (it
/// went through `cvta`, is the address of a variable, is declared `.ptr`, or
/// an access uses it directly).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing yet, or a register read before its definition.
    Undefined,
    /// A small constant, such as a null pointer.
    Null,
    /// Not a pointer, and not the difference of two.
    Integer,
    /// Maybe a pointer, of unknown root; not the difference of two.
    Opaque,
    /// A pointer derived from this root, if it is a pointer at all.
    Pointer {
        /// The root.
        root: RootId,
        /// Known to be a pointer.
        sure: bool,
    },
    /// A pointer derived from one of several roots (or from several
    /// instances of one): only the execution tells which.
    Several {
        /// Known to be a pointer.
        sure: bool,
    },
    /// Anything, also a difference of pointers, which turns one pointer into
    /// another when it is added.
    Unknown,
}

impl Origin {
    /// The least origin that covers both.
    #[must_use]
    pub fn join(self, other: Origin) -> Origin {
        use Origin::{Integer, Null, Opaque, Pointer, Several, Undefined, Unknown};
        match (self, other) {
            (Undefined, x) | (x, Undefined) => x,
            (Unknown, _) | (_, Unknown) => Unknown,
            (Null, x) | (x, Null) => x,
            (Integer, Integer) => Integer,
            (Pointer { root: a, sure: s }, Pointer { root: b, sure: t }) if a == b => Pointer {
                root: a,
                sure: s && t,
            },
            (
                Pointer { sure: s, .. } | Several { sure: s },
                Pointer { sure: t, .. } | Several { sure: t },
            ) => Several { sure: s && t },
            (Pointer { sure: true, .. } | Several { sure: true }, Integer | Opaque)
            | (Integer | Opaque, Pointer { sure: true, .. } | Several { sure: true }) => Unknown,
            (Integer | Opaque | Pointer { .. } | Several { .. }, Integer | Opaque)
            | (Integer | Opaque, Pointer { .. } | Several { .. }) => Opaque,
        }
    }

    /// Known to be a pointer.
    pub fn is_sure(self) -> bool {
        matches!(
            self,
            Origin::Pointer { sure: true, .. } | Origin::Several { sure: true }
        )
    }

    fn is_pointer(self) -> bool {
        matches!(self, Origin::Pointer { .. } | Origin::Several { .. })
    }

    fn is_number(self) -> bool {
        matches!(self, Origin::Null | Origin::Integer)
    }

    /// The origin of a sum.
    #[must_use]
    pub fn plus(self, other: Origin) -> Origin {
        use Origin::{Integer, Opaque, Several, Undefined, Unknown};
        match (self, other) {
            (Undefined, _) | (_, Undefined) => Undefined,
            (Unknown, _) | (_, Unknown) => Unknown,
            (a, b) if a.is_number() && b.is_number() => Integer,
            (a, b) if b.is_number() => a,
            (a, b) if a.is_number() => b,
            (a, b) if a.is_sure() && b.is_sure() => Unknown,
            (a, _) if a.is_sure() => a,
            (_, b) if b.is_sure() => b,
            (a, b) if a.is_pointer() && b.is_pointer() => {
                // `p + p` is no pointer arithmetic; of two candidates, the
                // execution takes the one that lies in an allocation.
                if a == b {
                    Unknown
                } else {
                    Several { sure: false }
                }
            }
            (Opaque, Opaque) => Opaque,
            _ => Unknown,
        }
    }

    /// The origin of a difference.
    #[must_use]
    pub fn minus(self, other: Origin) -> Origin {
        use Origin::{Integer, Pointer, Undefined, Unknown};
        match (self, other) {
            (Undefined, _) | (_, Undefined) => Undefined,
            (Unknown, _) | (_, Unknown) => Unknown,
            (a, b) if a.is_number() && b.is_number() => Integer,
            (a, b) if b.is_number() => a,
            (Pointer { root: a, .. }, Pointer { root: b, .. }) if a == b => Integer,
            _ => Unknown,
        }
    }

    /// The origin of a value that is one of the two, by a rule that is not
    /// followed (`min`, `slct`).
    #[must_use]
    pub fn choose(self, other: Origin) -> Origin {
        match self.join(other) {
            Origin::Several { sure: true } => Origin::Unknown,
            Origin::Several { sure: false } => Origin::Opaque,
            joined => joined,
        }
    }

    /// The origin of `or` and `xor`: like a sum with a number, but two
    /// candidates make nothing that is known (`xor` of two pointers is a kind
    /// of difference).
    #[must_use]
    pub fn combine(self, other: Origin) -> Origin {
        if self.is_pointer() && other.is_pointer() {
            return Origin::Unknown;
        }
        self.plus(other)
    }

    /// The origin of `and` with a mask that is not a constant.
    #[must_use]
    pub fn mask(self, other: Origin) -> Origin {
        match (self, other) {
            (Origin::Undefined, _) | (_, Origin::Undefined) => Origin::Undefined,
            (Origin::Unknown, _) | (_, Origin::Unknown) => Origin::Unknown,
            (a, b) if a.is_number() && b.is_number() => Origin::Integer,
            _ => Origin::Opaque,
        }
    }
}
