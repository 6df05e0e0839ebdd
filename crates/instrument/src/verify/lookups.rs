//! Lookups of addresses, wherever they are needed.

use super::checks::{Input, State, Text};
use super::written::{look_up, reads, word};
use crate::protocol::register::{OFFSET, OTHER, SCRATCH, WEAK_BASE, WEAK_SIZE};
use std::fmt;

/// The bounds found by looking up an address: always, or only if other bounds
/// are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) pointer: Text,
    pub(super) low: i64,
    /// The guard that it was looked up under, as text and as registers of
    /// their scopes.
    pub(super) under: Text,
    pub(super) guard: Text,
    /// The bounds that count unless they are empty.
    pub(super) instead_of: Option<(Text, Text)>,
}

impl Found {
    /// Whether this is about the address that a verdict is about.
    pub(super) fn is_of(&self, verdict: &super::verdicts::Verdict) -> bool {
        // Where the guard does not hold, nor does the verdict.
        let is_under = self.under.is_empty() || verdict.guards.contains(&self.guard);
        is_under
            && self.pointer == verdict.distance.pointer
            && (self.low == verdict.distance.low || self.low == 0 && verdict.symbol.is_some())
    }
}

impl State {
    /// Reads a lookup at a place of the text, of any address; where it ends.
    pub(super) fn lookup_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let text = input.new;
        let words = |expected: fmt::Arguments<'_>, at: u32| reads(text, at, expected);
        let operand = |at: u32| word(text, at).trim_end_matches([',', ';']);
        let skip = |at: u32, word: fmt::Arguments<'_>| words(word, at);
        // Other bounds first?
        let mut from = at;
        let mut instead_of = None;
        if let Some(after) = words(format_args!("mov.b64 {WEAK_BASE},"), from) {
            let base = operand(after).to_owned();
            let after = words(format_args!("{base}; mov.b64 {WEAK_SIZE},"), after)?;
            let size = operand(after).to_owned();
            from = skip(after, format_args!("{size};"))?;
            instead_of = Some((base, size));
        }
        let mut probe = None;
        if let Some(after) = words(format_args!("add.s64 {OFFSET},"), from) {
            let pointer = operand(after).to_owned();
            let after = skip(after, format_args!("{pointer},"))?;
            let low: i64 = operand(after).parse().ok()?;
            from = skip(after, format_args!("{low};"))?;
            probe = Some((pointer, low));
        }
        let mut label = None;
        if instead_of.is_some() {
            let after = words(
                format_args!("setp.ne.s64 {OTHER}, {WEAK_SIZE}, 0; @{OTHER} bra"),
                from,
            )?;
            let name = operand(after).to_owned();
            from = skip(after, format_args!("{name};"))?;
            label = name
                .starts_with(crate::protocol::LABEL_PREFIX)
                .then_some(name);
            label.as_ref()?;
        }
        let (pointer, guard) = looked_up(text, from)?;
        let end = reads(text, from, look_up(&pointer, &guard))?;
        let end = match &label {
            Some(label) => words(format_args!("{label}:"), end)?,
            None => end,
        };
        let (pointer, low) = match probe {
            Some(probe) if pointer == OFFSET => probe,
            Some(_) => return None,
            None => (pointer, 0),
        };
        let pointer = match self.symbols.contains_key(&pointer) {
            true => pointer,
            false => self.constant(self.resolve(&pointer)),
        };
        self.found = Some(Found {
            pointer,
            low,
            guard: match guard.trim_start_matches('@').strip_prefix('!') {
                Some(register) => format!("!{}", self.resolve(register)),
                None => self.resolve(guard.trim_start_matches('@')),
            },
            under: guard,
            instead_of,
        });
        Some(end)
    }
}

/// The pointer and the guard of the lookup at a position.
fn looked_up(text: &str, at: u32) -> Option<(Text, Text)> {
    let operand = |at: u32| word(text, at).trim_end_matches([',', ';']);
    if let Some(after) = reads(text, at, format_args!("selp.b64 {SCRATCH},")) {
        let first = operand(after).to_owned();
        let after = reads(text, after, format_args!("{first},"))?;
        let second = operand(after).to_owned();
        let after = reads(text, after, format_args!("{second},"))?;
        let guard = operand(after);
        return match (first.as_str(), second.as_str()) {
            ("0", _) => Some((second, format!("@!{guard}"))),
            (_, "0") => Some((first, format!("@{guard}"))),
            _ => None,
        };
    }
    if word(text, at) != "{" {
        return None;
    }
    let call = super::written::call_of_lookup("%");
    let until = call.find('%')?;
    let mut end = at;
    for word in call[..until].split_ascii_whitespace() {
        end = reads(text, end, word)?;
    }
    Some((operand(end).to_owned(), Text::new()))
}
