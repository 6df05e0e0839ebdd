//! The lattice: what a value can be, as far as pointers go.

use crate::code::ValueId;
use crate::names::SymbolId;

/// Number of a root within a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RootId(pub u32);

/// A place that defines a pointer (a base pointer definition of cuCatch,
/// 4.1.1).
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
    /// A pointer with bounds that the program declares (`ringfence.h`): the
    /// declared number of bytes, from the value on.
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

/// What is known of whether a value is a pointer, and not an integer of the
/// same width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Certainty {
    /// Nothing: a parameter or loaded word of 64 bits.
    Candidate,
    /// An access elsewhere in the function uses the root as a pointer. The
    /// word may still be a number here (a union, a tagged word).
    Evident,
    /// This value is one: it went through `cvta`, is the address of a
    /// variable, or is declared `.ptr`.
    Certain,
}

/// The origin of a value.
///
/// `in_doubt` means that the root may not be the pointer. Either the other
/// operand of an addition may be the pointer, and the root its offset; or the
/// root was combined from bits, and more may follow. If the root turns out to
/// point into no allocation, the bounds are those of the address itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing yet, or a register read before its definition.
    Undefined,
    /// A small constant, such as a null pointer.
    Null,
    /// Not a pointer, and not the difference of two.
    Integer,
    /// The difference of two pointers, scaled: a number of elements. Scaled back
    /// and added to one pointer it makes the other.
    Distance(Scale),
    /// Maybe a pointer, of unknown root; not the difference of two.
    Opaque,
    /// A pointer derived from this root, if it is a pointer at all.
    Pointer {
        /// The root.
        root: RootId,
        /// Whether it is a pointer.
        certainty: Certainty,
        /// See above.
        in_doubt: bool,
    },
    /// A pointer derived from one of several roots, or from several instances
    /// of one. Which one is only known at run time.
    Several {
        /// Whether it is a pointer.
        certainty: Certainty,
        /// See above.
        in_doubt: bool,
    },
    /// Anything, also a difference of pointers, which turns one pointer into
    /// another when it is added.
    Unknown,
}

/// A factor of a number of 64 bits: an odd number, modulo 2^64, times a power of
/// two. A division without remainder is one, too, by the inverse of the odd part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scale {
    odd: u64,
    shift: i16,
}

impl Scale {
    /// Neither larger nor smaller.
    pub const ONE: Scale = Scale { odd: 1, shift: 0 };

    /// Multiplies by `factor`; `None` for zero.
    pub fn by(factor: i64) -> Option<Scale> {
        let factor = factor as u64;
        let shift = factor.trailing_zeros();
        let odd = factor.checked_shr(shift)?;
        Some(Scale {
            odd,
            shift: shift as i16,
        })
    }

    /// Divides by `divisor`, without remainder; `None` for zero.
    pub fn divided(divisor: i64) -> Option<Scale> {
        let Scale { odd, shift } = Scale::by(divisor)?;
        // Newton's iteration; three bits are right at first, then twice as many
        // each time.
        let inverse = (0..5).fold(odd, |inverse, _| {
            inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)))
        });
        Some(Scale {
            odd: inverse,
            shift: -shift,
        })
    }

    /// Shifts to the left, or to the right by a negative number.
    pub fn shifted(by: i16) -> Scale {
        Scale { odd: 1, shift: by }
    }

    fn times(self, other: Scale) -> Scale {
        Scale {
            odd: self.odd.wrapping_mul(other.odd),
            shift: self.shift.saturating_add(other.shift),
        }
    }

    fn negative(self) -> Scale {
        Scale {
            odd: self.odd.wrapping_neg(),
            shift: self.shift,
        }
    }

    /// Whether it changes the sign at most.
    fn is_whole(self) -> bool {
        self == Scale::ONE || self == Scale::ONE.negative()
    }
}

/// Which term of a sum is the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leader {
    /// The first, for sure.
    First,
    /// The second, for sure.
    Second,
    /// The first, unless its root points to nothing: then the second may be.
    FirstInDoubt,
    /// The second, unless its root points to nothing.
    SecondInDoubt,
    /// One of the two, which is only known at run time.
    Either,
    /// None, or both.
    Neither,
}

impl Leader {
    /// Of the sum of two origins.
    pub fn of(first: Origin, second: Origin) -> Leader {
        use Certainty::{Candidate, Certain};
        match (first.certainty(), second.certainty()) {
            (None, None) => Leader::Neither,
            (Some(_), None) if second.is_number() => Leader::First,
            (None, Some(_)) if first.is_number() => Leader::Second,
            (Some(Certain), None) => Leader::First,
            (None, Some(Certain)) => Leader::Second,
            (Some(_), None) => Leader::FirstInDoubt,
            (None, Some(_)) => Leader::SecondInDoubt,
            // `p + p` is no pointer arithmetic.
            (Some(Candidate), Some(Candidate)) if first == second && first.is_one() => {
                Leader::Neither
            }
            (Some(Candidate), Some(Candidate)) => Leader::Either,
            (Some(Certain), Some(Candidate)) => Leader::First,
            (Some(Candidate), Some(Certain)) => Leader::Second,
            (Some(_), Some(Candidate)) => Leader::FirstInDoubt,
            (Some(Candidate), Some(_)) => Leader::SecondInDoubt,
            (Some(_), Some(_)) => Leader::Neither,
        }
    }
}

impl Origin {
    /// The least origin that covers both.
    #[must_use]
    pub fn join(self, other: Origin) -> Origin {
        use Origin::{Distance, Integer, Null, Opaque, Pointer, Several, Undefined, Unknown};
        match (self, other) {
            (Undefined, x) | (x, Undefined) => x,
            (Unknown, _) | (_, Unknown) => Unknown,
            (Null, x) | (x, Null) => x,
            (Integer, Integer) => Integer,
            (Distance(a), Distance(b)) if a == b => self,
            (Distance(_), Integer) => self,
            (Integer, Distance(_)) => other,
            (Pointer { .. } | Several { .. }, Pointer { .. } | Several { .. }) => {
                let certainty = self.certainty().min(other.certainty());
                let certainty = certainty.unwrap_or(Certainty::Candidate);
                let in_doubt = self.is_in_doubt() || other.is_in_doubt();
                match (self, other) {
                    (Pointer { root: a, .. }, Pointer { root: b, .. }) if a == b => Pointer {
                        root: a,
                        certainty,
                        in_doubt,
                    },
                    _ => Several {
                        certainty,
                        in_doubt,
                    },
                }
            }
            (sure, _) | (_, sure) if sure.is_sure() => Unknown,
            (
                Integer | Distance(_) | Opaque | Pointer { .. } | Several { .. },
                Integer | Distance(_) | Opaque,
            )
            | (Integer | Distance(_) | Opaque, Pointer { .. } | Several { .. }) => Opaque,
        }
    }

    /// Whether it is a pointer, if it may be one that is followed.
    pub fn certainty(self) -> Option<Certainty> {
        match self {
            Origin::Pointer { certainty, .. } | Origin::Several { certainty, .. } => {
                Some(certainty)
            }
            _ => None,
        }
    }

    /// Known to be a pointer, here or elsewhere.
    pub fn is_sure(self) -> bool {
        self.certainty() > Some(Certainty::Candidate)
    }

    /// Whether a root that points to nothing need not be the pointer.
    pub fn is_in_doubt(self) -> bool {
        matches!(
            self,
            Origin::Pointer { in_doubt: true, .. } | Origin::Several { in_doubt: true, .. }
        )
    }

    fn is_one(self) -> bool {
        matches!(self, Origin::Pointer { .. })
    }

    fn is_number(self) -> bool {
        matches!(self, Origin::Null | Origin::Integer)
    }

    /// The same, in doubt.
    #[must_use]
    pub fn doubted(self) -> Origin {
        match self {
            Origin::Pointer {
                root, certainty, ..
            } => Origin::Pointer {
                root,
                certainty,
                in_doubt: true,
            },
            Origin::Several { certainty, .. } => Origin::Several {
                certainty,
                in_doubt: true,
            },
            other => other,
        }
    }

    /// The same, known to be a pointer.
    #[must_use]
    pub fn certain(self) -> Origin {
        match self {
            Origin::Pointer { root, in_doubt, .. } => Origin::Pointer {
                root,
                certainty: Certainty::Certain,
                in_doubt,
            },
            Origin::Several { in_doubt, .. } => Origin::Several {
                certainty: Certainty::Certain,
                in_doubt,
            },
            other => other,
        }
    }

    /// The origin of a sum.
    #[must_use]
    pub fn plus(self, other: Origin) -> Origin {
        use Origin::{Distance, Integer, Opaque, Several, Undefined, Unknown};
        match (self, other) {
            (Undefined, _) | (_, Undefined) => Undefined,
            (Unknown, _) | (_, Unknown) => Unknown,
            (a, b) if a.is_number() && b.is_number() => Integer,
            // A number of elements and one that may be a word of 64 bits.
            (distance @ Distance(_), other) | (other, distance @ Distance(_))
                if !other.is_sure() =>
            {
                match other {
                    Distance(_) if other != distance => Opaque,
                    _ => distance,
                }
            }
            (a, b) => match Leader::of(a, b) {
                Leader::First => a,
                Leader::Second => b,
                Leader::FirstInDoubt => a.doubted(),
                Leader::SecondInDoubt => b.doubted(),
                Leader::Either => Several {
                    certainty: Certainty::Candidate,
                    in_doubt: true,
                },
                // Two pointers, of which one may be the negative of another
                // in a sum to come; or a doubled number.
                Leader::Neither if a.is_sure() || b.is_sure() => Unknown,
                Leader::Neither => Opaque,
            },
        }
    }

    /// The origin of a difference.
    #[must_use]
    pub fn minus(self, other: Origin) -> Origin {
        use Origin::{Distance, Integer, Opaque, Pointer, Undefined, Unknown};
        match (self, other) {
            (Undefined, _) | (_, Undefined) => Undefined,
            (Unknown, _) | (_, Unknown) => Unknown,
            (a, b) if a.is_number() && b.is_number() => Integer,
            (a, b) if b.is_number() => a,
            (a, Distance(scale)) if a.is_number() => Distance(scale.negative()),
            (Distance(a), Distance(b)) if a != b => Opaque,
            (Distance(_), Distance(_)) => self,
            (
                Pointer {
                    root: a,
                    in_doubt: false,
                    ..
                },
                Pointer {
                    root: b,
                    in_doubt: false,
                    ..
                },
            ) if a == b => Integer,
            _ => Unknown,
        }
    }

    /// The origin of a multiple of a value; `otherwise` unless it is, or may be,
    /// the difference of two pointers.
    #[must_use]
    pub fn scaled(self, by: Scale, otherwise: Origin) -> Origin {
        let scale = match self {
            Origin::Unknown => by,
            Origin::Distance(scale) => scale.times(by),
            _ => return otherwise,
        };
        match scale.is_whole() {
            true => Origin::Unknown,
            false => Origin::Distance(scale),
        }
    }

    /// The origin of a value that is one of the two, by a rule that is not
    /// followed (`min`, `slct`).
    #[must_use]
    pub fn choose(self, other: Origin) -> Origin {
        match self.join(other) {
            several @ Origin::Several { .. } if several.is_sure() => Origin::Unknown,
            Origin::Several { .. } => Origin::Opaque,
            joined => joined,
        }
    }

    /// The origin of `or` and `xor` in 32 bits: like a sum with a number, but
    /// two candidates make nothing that is known (`xor` of two pointers is a
    /// kind of difference).
    #[must_use]
    pub fn combine(self, other: Origin) -> Origin {
        if self.certainty().is_some() && other.certainty().is_some() {
            return Origin::Unknown;
        }
        self.plus(other)
    }

    /// The origin of a value that combines bits of both. It is `fresh` if one
    /// of them may be a pointer or a part of one. An exception: the other is a
    /// number and this one is certainly a pointer, which the program moves in
    /// its buffer. `is_sum` means that the bits of the two are added.
    #[must_use]
    pub fn unpack(self, other: Origin, fresh: Origin, is_sum: bool) -> Origin {
        use Certainty::Certain;
        use Origin::{Integer, Null, Undefined, Unknown};
        match (self, other) {
            (Undefined, _) | (_, Undefined) => Undefined,
            (Unknown, _) | (_, Unknown) => Unknown,
            (a, b) if a.is_number() && b.is_number() => Integer,
            (a @ Origin::Distance(_), b) | (b, a @ Origin::Distance(_))
                if is_sum && b.is_number() =>
            {
                a
            }
            (a, Null) if a.certainty().is_some() => a,
            (Null, b) if b.certainty().is_some() => b,
            (a, b) => match (a.certainty(), b.certainty()) {
                (Some(Certain), Some(Certain)) => Unknown,
                (Some(Certain), _) if is_sum || b.is_number() => a,
                (_, Some(Certain)) if is_sum || a.is_number() => b,
                (Some(_), None) if is_sum && b.is_number() => a,
                (None, Some(_)) if is_sum && a.is_number() => b,
                _ => fresh,
            },
        }
    }

    /// The origin of bits that were cut out or moved: a number if all were,
    /// else `otherwise`.
    #[must_use]
    pub fn bits(self, other: Origin, otherwise: Origin) -> Origin {
        match (self, other) {
            (Origin::Undefined, _) | (_, Origin::Undefined) => Origin::Undefined,
            (a, b) if a.is_number() && b.is_number() => Origin::Integer,
            // The difference of two pointers, scaled, is an index.
            (Origin::Unknown, _) | (_, Origin::Unknown) => Origin::Opaque,
            _ => otherwise,
        }
    }

    /// The origin of `and` in 32 bits with a mask that is not a constant.
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
