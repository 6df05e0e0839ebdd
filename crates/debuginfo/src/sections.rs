//! From the text of debug sections to their bytes.
//!
//! Labels of code become offsets in the PTX text, so that ranges of labels are
//! ranges of text. Symbols become numbers that no text offset can be
//! ([`SYMBOL`]), and are found again with [`Sections::symbol`].

use crate::Error;
use ptx::{Item, LineIndex, Module, Statement};
use rustc_hash::FxHashMap;

/// Set in a number that stands for a symbol.
const SYMBOL: u64 = 1 << 62;

/// The bytes of the debug sections.
#[derive(Debug, Default)]
pub(crate) struct Sections<'a> {
    bytes: FxHashMap<&'a str, Vec<u8>>,
    symbols: Vec<&'a str>,
    numbers: FxHashMap<&'a str, u64>,
}

/// A place in the bytes that a label of another section, or one further down,
/// belongs in.
struct Fixup<'a> {
    section: &'a str,
    at: usize,
    width: usize,
    plus: &'a str,
    minus: Option<&'a str>,
    offset: u64,
}

impl<'a> Sections<'a> {
    /// The sections of a module; `None` if there is no `.debug_info`.
    pub fn of(module: &Module<'a>) -> Result<Option<Sections<'a>>, Error> {
        let texts = module.items.iter().filter_map(|item| match item {
            Item::Other(span) => Some(span.text(module.source)),
            _ => None,
        });
        let texts = texts.filter_map(|text| {
            let (name, body) = text.strip_prefix(".section")?.split_once('{')?;
            Some((name.trim(), body.strip_suffix('}').unwrap_or(body)))
        });
        let texts: Vec<(&str, &str)> = texts.collect();
        // (With `-lineinfo` there are names of functions only, and many of them.)
        if !texts.iter().any(|(name, _)| *name == ".debug_info") {
            return Ok(None);
        }
        let mut sections = Sections::default();
        let mut fixups = Vec::new();
        for (name, body) in texts {
            let start = body.as_ptr() as usize - module.source.as_ptr() as usize;
            sections
                .section(name, body, &mut fixups)
                .map_err(|(offset, text)| Error::Statement {
                    line: LineIndex::new(module.source)
                        .position(u32::try_from(start + offset).unwrap_or(u32::MAX))
                        .line,
                    text: text.to_string(),
                })?;
        }
        for function in module.functions() {
            for (_, statement) in function.statements() {
                if let Statement::Label(label) = statement {
                    sections
                        .numbers
                        .insert(label.name, u64::from(label.span.start));
                }
            }
        }
        for fixup in fixups {
            sections.settle(&fixup);
        }
        Ok(Some(sections))
    }

    /// The bytes of a section; none if it is missing.
    pub fn bytes(&self, name: &str) -> &[u8] {
        self.bytes.get(name).map_or(&[], Vec::as_slice)
    }

    /// The symbol that a number stands for.
    pub fn symbol(&self, number: u64) -> Option<&'a str> {
        let index = number.checked_sub(SYMBOL)?;
        self.symbols.get(usize::try_from(index).ok()?).copied()
    }

    /// Reads the statements of one section. The error is the offset of a
    /// statement in the body, and its text.
    fn section(
        &mut self,
        name: &'a str,
        body: &'a str,
        fixups: &mut Vec<Fixup<'a>>,
    ) -> Result<(), (usize, &'a str)> {
        let mut bytes = self.bytes.remove(name).unwrap_or_default();
        self.numbers.insert(name, 0);
        let has_comments = body.contains("//");
        for line in body.lines() {
            let line = match has_comments {
                true => line.split("//").next().unwrap_or_default(),
                false => line,
            };
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let fail = (line.as_ptr() as usize - body.as_ptr() as usize, line);
            if let Some(label) = line.strip_suffix(':') {
                self.numbers.insert(label.trim(), bytes.len() as u64);
                continue;
            }
            let blank = line.bytes().position(|byte| byte.is_ascii_whitespace());
            let (kind, list) = line.split_at(blank.ok_or(fail)?);
            let width = match kind {
                ".b8" => 1,
                ".b16" => 2,
                ".b32" => 4,
                ".b64" => 8,
                _ => return Err(fail),
            };
            for value in list.trim_end_matches([';', ',']).split(',') {
                let value = value.trim_ascii();
                let at = bytes.len();
                bytes.resize(at + width, 0);
                if let Some(number) = number(value) {
                    bytes[at..].copy_from_slice(&number.to_le_bytes()[..width]);
                } else {
                    let fixup = fixup(name, at, width, value).ok_or(fail)?;
                    fixups.push(fixup);
                }
            }
        }
        self.bytes.insert(name, bytes);
        Ok(())
    }

    fn settle(&mut self, fixup: &Fixup<'a>) {
        let mut value = self.number_of(fixup.plus).wrapping_add(fixup.offset);
        if let Some(minus) = fixup.minus {
            value = value.wrapping_sub(self.number_of(minus));
        }
        let place = self
            .bytes
            .get_mut(fixup.section)
            .and_then(|bytes| bytes.get_mut(fixup.at..fixup.at + fixup.width));
        if let Some(place) = place {
            place.copy_from_slice(&value.to_le_bytes()[..fixup.width]);
        }
    }

    fn number_of(&mut self, name: &'a str) -> u64 {
        let next = SYMBOL + self.symbols.len() as u64;
        let symbols = &mut self.symbols;
        *self.numbers.entry(name).or_insert_with(|| {
            symbols.push(name);
            next
        })
    }
}

fn number(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix('-') {
        return Some(digits.parse::<u64>().ok()?.wrapping_neg());
    }
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `label`, `label+8`, `label-label`.
fn fixup<'a>(section: &'a str, at: usize, width: usize, text: &'a str) -> Option<Fixup<'a>> {
    let is_name = |name: &str| {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.');
        !name.is_empty()
            && name.chars().all(word)
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    let (plus, minus, offset) = if let Some((plus, offset)) = text.split_once('+') {
        (plus.trim(), None, number(offset.trim())?)
    } else if let Some((plus, minus)) = text.split_once('-') {
        (plus.trim(), Some(minus.trim()), 0)
    } else {
        (text, None, 0)
    };
    (is_name(plus) && minus.is_none_or(is_name)).then_some(Fixup {
        section,
        at,
        width,
        plus,
        minus,
        offset,
    })
}
