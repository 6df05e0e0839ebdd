//! An opcode, parsed once: its mnemonic and its modifiers.

use crate::table::Mnemonic;
use crate::{Modifier, Span, Type};

/// Modifiers that an opcode may have; no instruction has more than 14.
const MOST: usize = 15;

/// An opcode token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opcode<'a> {
    /// The token: `ld.global.f32`.
    pub text: &'a str,
    /// Its place.
    pub span: Span,
    mnemonic: Mnemonic,
    count: u8,
    modifiers: [Modifier; MOST],
}

impl<'a> Opcode<'a> {
    /// Parses the text of an opcode. One with more modifiers than any
    /// instruction has is unknown.
    pub fn new(text: &'a str, span: Span) -> Opcode<'a> {
        let mut modifiers = [Modifier::Unknown; MOST];
        let mut parts = text.split('.');
        let base = parts.next().unwrap_or_default().trim_end();
        let mut mnemonic = Mnemonic::of(base);
        let mut count = 0;
        for part in parts {
            let Some(place) = modifiers.get_mut(count) else {
                mnemonic = Mnemonic::Unknown;
                break;
            };
            *place = Modifier::of(part.trim());
            count += 1;
        }
        Opcode {
            text,
            span,
            mnemonic,
            count: count as u8,
            modifiers,
        }
    }

    /// The part before the first dot: `ld`.
    #[inline]
    pub fn mnemonic(&self) -> Mnemonic {
        self.mnemonic
    }

    /// Modifiers in the order written.
    #[inline]
    pub fn modifiers(&self) -> &[Modifier] {
        &self.modifiers[..usize::from(self.count)]
    }

    /// Modifiers as text, in the order written, without dots (`shared::cta` is
    /// one).
    pub fn modifier_texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.text.split('.').skip(1).map(str::trim)
    }

    /// Whether a modifier is present, at any place.
    #[inline]
    pub fn has(&self, modifier: Modifier) -> bool {
        self.modifiers().contains(&modifier)
    }

    /// Whether one of these modifiers is present, at any place.
    #[inline]
    pub fn has_any(&self, modifiers: &[Modifier]) -> bool {
        modifiers.iter().any(|modifier| self.has(*modifier))
    }

    /// Types among the modifiers, in order: `cvt.rn.f32.s32` gives F32, S32.
    #[inline]
    pub fn types(&self) -> impl DoubleEndedIterator<Item = Type> + '_ {
        self.modifiers().iter().filter_map(|modifier| modifier.ty())
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Mnemonic, Modifier, Opcode};
    use crate::{Span, Type};

    fn opcode(text: &str) -> Opcode<'_> {
        Opcode::new(text, Span::default())
    }

    #[test]
    fn an_opcode_is_parsed() {
        let copy = opcode("cp.async.cg.shared::cta.global.L2::128B");
        assert_eq!(copy.mnemonic(), Mnemonic::Cp);
        assert!(copy.has(Modifier::Async) && copy.has(Modifier::SharedCta));
        assert!(!copy.has(Modifier::Shared));
        let convert = opcode("cvt.rn.f32.s32");
        assert_eq!(convert.types().collect::<Vec<_>>(), [Type::F32, Type::S32]);
    }

    #[test]
    fn blanks_before_dots_do_not_matter() {
        let load = opcode("ld .param .u64");
        assert_eq!(load.mnemonic(), Mnemonic::Ld);
        assert_eq!(load.modifiers(), [Modifier::Param, Modifier::U64]);
    }

    #[test]
    fn what_is_not_in_the_tables_is_unknown() {
        let text = "ldx.global.colour.u32";
        let unknown = opcode(text);
        assert_eq!(unknown.mnemonic(), Mnemonic::Unknown);
        assert_eq!(
            unknown.modifiers(),
            [Modifier::Global, Modifier::Unknown, Modifier::U32]
        );
        assert_eq!(unknown.modifier_texts().nth(1), Some("colour"));
        assert_eq!(unknown.text, text);
    }

    #[test]
    fn an_opcode_with_too_many_modifiers_is_unknown() {
        let text = format!("ld{}", ".global".repeat(MOST));
        assert_eq!(opcode(&text).mnemonic(), Mnemonic::Ld);
        let text = format!("{text}.u32");
        assert_eq!(opcode(&text).mnemonic(), Mnemonic::Unknown);
        assert_eq!(opcode(&text).modifiers().len(), MOST);
    }
}
