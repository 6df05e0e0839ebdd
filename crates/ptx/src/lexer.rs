//! Splits PTX text into tokens that cover every byte.
//!
//! The lexer never fails: bytes that PTX has no use for become tokens of kind
//! [`TokenKind::Unknown`], which the parser reports. It must stay lossless
//! (the tokens' texts joined are the source) and linear in the input.

use crate::Span;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Spaces, newlines, comments, `#` lines.
    Trivia,
    /// An opcode with its modifiers, a name, a register: `ld.global.f32`,
    /// `%tid.x`, `$L__BB0_1`, `_`.
    Word,
    /// A dot and a name: `.reg`, `.b32`, `.shared::cta`. Dots separate, so
    /// `.visible.func` is two tokens.
    Directive,
    /// `12`, `0x1F`, `0b101`, `017`, `5U`.
    Integer,
    /// `1.5`, `1e-3`, `0f3F800000`, `0d3FF0000000000000`.
    Float,
    /// `"text"`, with the quotes.
    String,
    /// One ASCII character that stands for itself: `{ } ( ) [ ] , ; : @ ! |`
    /// and similar.
    Punct(u8),
    /// A string without its closing quote or a comment without its `*/`.
    Unterminated,
    /// Bytes that no PTX token starts with.
    Unknown,
}

/// A piece of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Its place.
    pub span: Span,
}

/// Tokens that cover `source` without gap or overlap.
///
/// Spans are 32-bit: of a source over 4 GiB only what fits is covered.
/// [`crate::parse`] refuses such a source.
pub fn tokenize(source: &str) -> Vec<Token> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::with_capacity(bytes.len() / 4);
    let mut at = 0;
    while at < bytes.len() {
        let (kind, end) = scan(bytes, at);
        let (Ok(start), Ok(end32)) = (u32::try_from(at), u32::try_from(end)) else {
            break;
        };
        tokens.push(Token {
            kind,
            span: Span { start, end: end32 },
        });
        at = end;
    }
    tokens
}

const SPACE: u8 = 1;
const WORD_START: u8 = 2;
/// Continues a word once it has begun; `.` and `::` are handled apart.
const WORD: u8 = 4;
const DIGIT: u8 = 8;
const PUNCT: u8 = 16;

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let c = i as u8;
        table[i] = match c {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => SPACE,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => WORD_START | WORD,
            // Only begins a name: `ld.global.b32%r1` is two tokens.
            b'%' => WORD_START,
            b'0'..=b'9' => DIGIT | WORD,
            b'{' | b'}' | b'(' | b')' | b'[' | b']' | b',' | b';' | b':' | b'@' | b'!' | b'|'
            | b'+' | b'-' | b'=' | b'<' | b'>' | b'*' | b'/' | b'&' | b'^' | b'~' | b'?' => PUNCT,
            _ => 0,
        };
        i += 1;
    }
    table
}

#[inline(always)]
fn is(bytes: &[u8], at: usize, class: u8) -> bool {
    bytes
        .get(at)
        .is_some_and(|&b| CLASS[b as usize] & class != 0)
}

/// End of the run of bytes of `class` that starts at `at`.
#[inline(always)]
fn run(bytes: &[u8], mut at: usize, class: u8) -> usize {
    while is(bytes, at, class) {
        at += 1;
    }
    at
}

/// Kind and end of the token at `at`, which must be inside `bytes`.
#[inline]
pub(crate) fn scan(bytes: &[u8], at: usize) -> (TokenKind, usize) {
    let first = bytes[at];
    let class = CLASS[first as usize];
    if class & WORD_START != 0 {
        return (TokenKind::Word, word(bytes, at + 1));
    }
    if class & SPACE != 0 {
        return (TokenKind::Trivia, run(bytes, at + 1, SPACE));
    }
    if class & DIGIT != 0 {
        return number(bytes, at);
    }
    match (first, bytes.get(at + 1)) {
        (b'/', Some(b'/')) => (TokenKind::Trivia, line_end(bytes, at + 2)),
        (b'/', Some(b'*')) => match bytes[at + 2..].windows(2).position(|w| w == b"*/") {
            Some(length) => (TokenKind::Trivia, at + 2 + length + 2),
            None => (TokenKind::Unterminated, bytes.len()),
        },
        (b'.', _) if is(bytes, at + 1, WORD_START) => {
            (TokenKind::Directive, directive(bytes, at + 2))
        }
        (b'.', _) if is(bytes, at + 1, DIGIT) => number(bytes, at),
        (b'"', _) => string(bytes, at),
        (b'#', _) if starts_line(bytes, at) => (TokenKind::Trivia, line_end(bytes, at + 1)),
        _ if class & PUNCT != 0 => (TokenKind::Punct(first), at + 1),
        (0..0x80, _) => (TokenKind::Unknown, at + 1),
        // Characters outside ASCII: to the next ASCII byte, so that the ends
        // of tokens are ends of characters.
        _ => (
            TokenKind::Unknown,
            at + bytes[at..].iter().take_while(|b| **b >= 0x80).count(),
        ),
    }
}

/// Letters, digits, `_ $`, and dots and `::` before any of them
/// (`.cta_group::1`).
#[inline(always)]
fn word(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at = run(bytes, at, WORD);
        match bytes.get(at) {
            Some(b'.') if is(bytes, at + 1, WORD) => at += 2,
            Some(b':') if bytes.get(at + 1) == Some(&b':') && is(bytes, at + 2, WORD) => at += 3,
            _ => return at,
        }
    }
}

#[inline(always)]
fn directive(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at = run(bytes, at, WORD);
        match bytes.get(at) {
            Some(b':') if bytes.get(at + 1) == Some(&b':') && is(bytes, at + 2, WORD) => at += 3,
            _ => return at,
        }
    }
}

/// Integers swallow letters that follow (`0x1F`, `5U`, and wrong ones, which
/// the parser reports); a dot or exponent makes a float.
#[inline]
fn number(bytes: &[u8], at: usize) -> (TokenKind, usize) {
    let second = bytes.get(at + 1).copied().unwrap_or(0);
    if bytes[at] == b'0' && second.is_ascii_alphabetic() && !matches!(second, b'e' | b'E') {
        let end = run(bytes, at, WORD);
        let is_float = matches!(second, b'f' | b'F' | b'd' | b'D');
        return (
            if is_float {
                TokenKind::Float
            } else {
                TokenKind::Integer
            },
            end,
        );
    }
    let mut end = run(bytes, at, DIGIT);
    let mut is_float = false;
    if bytes.get(end) == Some(&b'.') {
        is_float = true;
        end = run(bytes, end + 1, DIGIT);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if is(bytes, end + 1 + sign, DIGIT) {
            is_float = true;
            end = run(bytes, end + 1 + sign, DIGIT);
        }
    }
    let end = run(bytes, end, WORD);
    (
        if is_float {
            TokenKind::Float
        } else {
            TokenKind::Integer
        },
        end,
    )
}

/// Strings may not pass the end of the line: an open quote would otherwise
/// hide every later error.
fn string(bytes: &[u8], at: usize) -> (TokenKind, usize) {
    let mut end = at + 1;
    while let Some(&byte) = bytes.get(end) {
        match byte {
            b'"' => return (TokenKind::String, end + 1),
            b'\n' => break,
            b'\\' if matches!(bytes.get(end + 1), Some(b'"' | b'\\')) => end += 2,
            _ => end += 1,
        }
    }
    (TokenKind::Unterminated, end)
}

/// Place of the newline at or after `at`, or the end.
pub(crate) fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .iter()
        .position(|b| *b == b'\n')
        .map_or(bytes.len(), |length| at + length)
}

/// Whether only blanks stand between the start of the line and `at`.
fn starts_line(bytes: &[u8], at: usize) -> bool {
    let blanks = bytes[..at]
        .iter()
        .rev()
        .take_while(|b| matches!(b, b' ' | b'\t'))
        .count();
    at == blanks || bytes[at - blanks - 1] == b'\n'
}
