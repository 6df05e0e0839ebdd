//! What registers hold wherever they are read: invariants of a function.
//!
//! An invariant of a register is a class of values ([`Known`]) that each
//! instruction which writes the register makes, whatever was executed before. It
//! holds at a read if one of these instructions was executed before the read on
//! every path ([`Dominance`]): the last that wrote the register is one of them.
//! That each of them makes such a value may rest on invariants of other
//! registers, and of the same one: by induction over the instructions that a
//! thread executes, none is the first to break one.
//!
//! Which classes might hold is guessed, in a few walks over the body. What counts
//! is the last walk: in it, what is read of a register is its invariant, and no
//! instruction makes a value outside of it; accesses are judged in the same walk.
//! Where a walk finds that an invariant does not hold, the register has a weaker one
//! from then on, or none, and another walk follows. (A guess may have been made before
//! the instruction was seen that breaks it: what stands further down is executed before,
//! in a loop.) A function whose walks do not end soon is refused.
//!
//! Names are those of registers only where the function declares the name once,
//! outside of all inner scopes: of other registers nothing is known.

use super::dominance::Dominance;
use super::known::Known;
use rustc_hash::FxHashMap;

/// Walks that guess.
const GUESSES: u32 = 3;
/// Walks, with these, behind which an invariant is weakened, and not dropped.
const WEAKENING: u32 = 12;
/// Walks in all.
const WALKS: u32 = 24;
/// Instructions among which one is sought that is executed before a read.
const DEFINITIONS: usize = 4;

/// The invariants of a function, and how far they are established.
#[derive(Clone, Debug, Default)]
pub(super) struct Invariants<'a> {
    dominance: Dominance,
    registers: FxHashMap<&'a str, Register>,
    walks: u32,
    is_broken: bool,
}

#[derive(Clone, Debug)]
struct Register {
    /// The first instructions that write it.
    definitions: Vec<u32>,
    /// Its class.
    known: Known,
    /// What instructions of this walk made.
    made: Known,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walked {
    /// The invariants hold, and so does what was judged.
    Done,
    /// Another walk has to follow.
    Again,
    /// They are not found.
    Endless,
}

impl<'a> Invariants<'a> {
    /// For the registers of these names, each with the instructions that write it,
    /// in the order of the text.
    pub(super) fn new(
        dominance: Dominance,
        written: impl Iterator<Item = (&'a str, Vec<u32>)>,
    ) -> Invariants<'a> {
        let registers = written.map(|(name, mut definitions)| {
            definitions.truncate(DEFINITIONS);
            let register = Register {
                definitions,
                known: Known::Unseen,
                made: Known::Unseen,
            };
            (name, register)
        });
        Invariants {
            dominance,
            registers: registers.collect(),
            walks: 0,
            is_broken: false,
        }
    }

    /// Whether this walk may be the one that counts.
    pub(super) fn is_judged(&self) -> bool {
        self.walks >= GUESSES
    }

    /// What a register holds where the instruction `here` reads it.
    pub(super) fn known(&self, name: &str, here: u32) -> Option<Known> {
        let register = self.registers.get(name)?;
        let mut definitions = register.definitions.iter();
        if !definitions.any(|earlier| self.dominance.is_before(*earlier, here)) {
            return None;
        }
        // In a guess, rather what this walk has seen.
        let is_guess = !self.is_judged() && register.made != Known::Unseen;
        Some(if is_guess {
            register.made
        } else {
            register.known
        })
    }

    /// An instruction made a value of this class.
    pub(super) fn make(&mut self, name: &str, known: Known) {
        let is_judged = self.is_judged();
        let Some(register) = self.registers.get_mut(name) else {
            return;
        };
        let is_none = known.is_of_one() || (is_judged && known == Known::Unseen);
        let known = if is_none { Known::Nothing } else { known };
        register.made = register.made.join(known);
        if is_judged && register.known.join(known) != register.known {
            self.is_broken = true;
        }
    }

    /// The end of a walk.
    pub(super) fn walked(&mut self) -> Walked {
        self.walks += 1;
        let is_guess = self.walks <= GUESSES;
        let is_last_guess = self.walks == GUESSES;
        for register in self.registers.values_mut() {
            if is_guess {
                register.known = register.made;
            } else if register.known.join(register.made) != register.known {
                register.known = match self.walks <= WEAKENING {
                    true => register.known.weaker(register.made),
                    false => Known::Nothing,
                };
            }
            // What no instruction of the text makes is not known.
            if is_last_guess && register.known == Known::Unseen {
                register.known = Known::Nothing;
            }
            register.made = Known::Unseen;
        }
        let is_broken = std::mem::take(&mut self.is_broken);
        match (is_guess || is_broken, self.walks < WALKS) {
            (false, _) => Walked::Done,
            (true, true) => Walked::Again,
            (true, false) => Walked::Endless,
        }
    }
}
