//! The parser's view of the tokens: one token of look-ahead, trivia skipped,
//! errors collected.
//!
//! Must never recurse on input and must do only constant work per byte: the
//! errors' positions and lines are made in one pass at the end.

use crate::lexer::scan;
use crate::{Error, Position, Span, TokenKind};

/// How deep scopes, lists and vectors may nest.
pub(crate) const MAX_DEPTH: u32 = 200;

/// Longest excerpt of a line that an error quotes, in characters.
const MAX_LINE: usize = 160;

/// A token that is not trivia.
#[derive(Clone, Copy)]
pub(crate) struct Lookahead {
    pub kind: TokenKind,
    pub start: u32,
    pub end: u32,
    /// A newline stands between the token before and this one.
    pub after_newline: bool,
    /// There is no token: the end of the source.
    pub at_end: bool,
}

/// An error without its position and line.
struct RawError {
    message: String,
    span: Span,
    help: &'static str,
}

/// A parse step failed; the error has been recorded and the caller skips to
/// a place where it can go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed;

/// Result of a parse step.
pub(crate) type Step<T> = Result<T, Failed>;

pub(crate) struct Cursor<'a> {
    pub source: &'a str,
    /// Where to stop: the end of the source, or of a part of it.
    limit: usize,
    pub token: Lookahead,
    /// End of the token before [`Cursor::token`].
    pub previous_end: u32,
    /// Inside a `call`, where parentheses are lists; else they are arithmetic.
    pub in_call: bool,
    errors: Vec<RawError>,
    depth: u32,
}

impl<'a> Cursor<'a> {
    /// `source` must be shorter than 4 GiB.
    pub fn new(source: &'a str) -> Self {
        Self::within(source, 0, source.len() as u32)
    }

    /// Only the tokens from `start` to `end`, both bounds of tokens.
    pub fn within(source: &'a str, start: u32, end: u32) -> Self {
        let token = Lookahead {
            kind: TokenKind::Trivia,
            start,
            end: start,
            after_newline: true,
            at_end: false,
        };
        let limit = source.len().min(end as usize);
        let mut cursor = Cursor {
            source,
            limit,
            token,
            previous_end: start,
            in_call: false,
            errors: Vec::new(),
            depth: 0,
        };
        cursor.bump();
        cursor
    }

    /// Go to the next token.
    #[inline]
    pub fn bump(&mut self) {
        let bytes = &self.source.as_bytes()[..self.limit];
        self.previous_end = self.token.end;
        let mut at = self.token.end as usize;
        let mut after_newline = false;
        while at < bytes.len() {
            let (kind, end) = scan(bytes, at);
            if kind != TokenKind::Trivia {
                self.token = Lookahead {
                    kind,
                    start: at as u32,
                    end: end as u32,
                    after_newline,
                    at_end: false,
                };
                return;
            }
            after_newline |= bytes[at..end].contains(&b'\n');
            at = end;
        }
        // An empty token after the last one, in no class that anything expects.
        let end = at as u32;
        self.token = Lookahead {
            kind: TokenKind::Trivia,
            start: end,
            end,
            after_newline: true,
            at_end: true,
        };
    }

    /// Text of the token ahead.
    #[inline]
    pub fn text(&self) -> &'a str {
        &self.source[self.token.start as usize..self.token.end as usize]
    }

    /// Place of the token ahead.
    #[inline]
    pub fn span(&self) -> Span {
        Span {
            start: self.token.start,
            end: self.token.end,
        }
    }

    /// From `start` to the end of the token before.
    #[inline]
    pub fn since(&self, start: u32) -> Span {
        Span {
            start,
            end: self.previous_end.max(start),
        }
    }

    /// Text from `start` to `end`.
    #[inline]
    pub fn slice(&self, start: u32, end: u32) -> &'a str {
        &self.source[start as usize..end as usize]
    }

    /// Whether `c` is ahead.
    #[inline]
    pub fn at(&self, c: u8) -> bool {
        self.token.kind == TokenKind::Punct(c)
    }

    /// Whether the directive `text` is ahead.
    #[inline]
    pub fn at_directive(&self, text: &str) -> bool {
        self.token.kind == TokenKind::Directive && self.text() == text
    }

    /// Pass `c` if it is ahead.
    #[inline]
    pub fn eat(&mut self, c: u8) -> bool {
        let found = self.at(c);
        if found {
            self.bump();
        }
        found
    }

    /// Pass `c`, or record that it is missing.
    #[inline]
    pub fn expect(&mut self, c: u8, context: &str, help: &'static str) -> Step<()> {
        if self.eat(c) {
            Ok(())
        } else {
            Err(self.unfinished(&format!("`{}`", c as char), context, help))
        }
    }

    /// Record that `expected` does not follow the token before. Where the line
    /// ended, its end is the place: what is missing is missing there.
    #[cold]
    pub fn unfinished(&mut self, expected: &str, context: &str, help: &'static str) -> Failed {
        if !self.token.after_newline || self.token.at_end || self.previous_end == 0 {
            return self.unexpected(expected, context, help);
        }
        let mut start = self.previous_end as usize - 1;
        while !self.source.is_char_boundary(start) {
            start -= 1;
        }
        let span = Span {
            start: start as u32,
            end: self.previous_end,
        };
        self.fail(
            format!("expected {expected} {context}, found the end of the line"),
            span,
            help,
        )
    }

    /// Whether the token ahead begins a line and the token before could end a
    /// statement: where an earlier `;` or `}` is missing, parsing can continue
    /// here.
    pub fn at_fresh_line(&self) -> bool {
        let before = self
            .previous_end
            .checked_sub(1)
            .map(|at| self.source.as_bytes()[at as usize]);
        self.token.after_newline
            && !matches!(before, Some(b',' | b'(' | b'[' | b'{' | b'|' | b'+' | b'='))
    }

    /// Pass a word and return it with its place.
    #[inline]
    pub fn word(&mut self, what: &str, context: &str, help: &'static str) -> Step<(&'a str, Span)> {
        if self.token.kind != TokenKind::Word {
            return Err(self.unexpected(what, context, help));
        }
        let found = (self.text(), self.span());
        self.bump();
        Ok(found)
    }

    /// Pass an integer literal that fits `u32`.
    pub fn small_integer(&mut self, what: &str, context: &str, help: &'static str) -> Step<u32> {
        let value = if self.token.kind == TokenKind::Integer {
            crate::number::integer(self.text())
        } else {
            None
        };
        match value.and_then(|value| u32::try_from(value).ok()) {
            Some(value) => {
                self.bump();
                Ok(value)
            }
            None => Err(self.unexpected(what, context, help)),
        }
    }

    /// Skip to one of `stops`, or to the end.
    pub fn skip_to(&mut self, stops: &[u8]) {
        while !self.token.at_end
            && !matches!(self.token.kind, TokenKind::Punct(c) if stops.contains(&c))
        {
            self.bump();
        }
    }

    /// Enter a nested construct; every `Ok` needs one [`Cursor::leave`].
    pub fn enter(&mut self) -> Step<()> {
        if self.depth == MAX_DEPTH {
            let message = format!("nesting deeper than {MAX_DEPTH} levels");
            return Err(self.fail(
                message,
                self.span(),
                "Flatten the scopes or lists around this place.",
            ));
        }
        self.depth += 1;
        Ok(())
    }

    /// Leave a nested construct.
    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Record that something else than `expected` is ahead.
    #[cold]
    pub fn unexpected(&mut self, expected: &str, context: &str, help: &'static str) -> Failed {
        let (found, help) = match self.token.kind {
            _ if self.token.at_end => ("the end of the file".to_string(), help),
            TokenKind::Unterminated if self.text().starts_with('"') => (
                "a string without its closing quote".to_string(),
                "Close the string on the line it begins on.",
            ),
            TokenKind::Unterminated => (
                "a comment that never ends".to_string(),
                "Close the comment with `*/`.",
            ),
            TokenKind::Unknown => (
                format!("{:?}, which PTX has no use for", excerpt(self.text(), 20)),
                "Remove these bytes: PTX is ASCII text.",
            ),
            _ => (format!("`{}`", excerpt(self.text(), 40)), help),
        };
        self.fail(
            format!("expected {expected} {context}, found {found}"),
            self.span(),
            help,
        )
    }

    /// Record an error.
    #[cold]
    pub fn fail(&mut self, message: String, span: Span, help: &'static str) -> Failed {
        self.errors.push(RawError {
            message,
            span,
            help,
        });
        Failed
    }

    /// Whether an error has been recorded.
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// All errors in the order of their places, with lines and positions.
    pub fn into_errors(mut self) -> Vec<Error> {
        let last = last_text(self.source);
        for error in &mut self.errors {
            // What is missing at the end is shown at the last line with text.
            if error.span.start as usize >= self.source.len() {
                error.span = last;
            }
        }
        self.errors.sort_by_key(|error| error.span.start);
        let mut walk = Walk::default();
        let source = self.source;
        self.errors
            .into_iter()
            .map(|error| {
                let position = walk.position(source, error.span.start as usize);
                let line = quote_line(source, walk.line_start, error.span.start as usize);
                Error {
                    message: error.message,
                    span: error.span,
                    position,
                    line,
                    help: error.help.to_string(),
                }
            })
            .collect()
    }
}

/// Place of the last character that is not a blank, or the empty span at 0.
fn last_text(source: &str) -> Span {
    let text = source.trim_end();
    match text.char_indices().next_back() {
        Some((start, _)) => Span {
            start: start as u32,
            end: text.len() as u32,
        },
        None => Span::default(),
    }
}

/// Positions of rising offsets, so that many errors cost one pass.
#[derive(Default)]
struct Walk {
    offset: usize,
    line: u32,
    line_start: usize,
    column: u32,
}

impl Walk {
    fn position(&mut self, source: &str, offset: usize) -> Position {
        let passed = &source[self.offset..offset];
        match passed.rfind('\n') {
            Some(newline) => {
                self.line += passed.bytes().filter(|b| *b == b'\n').count() as u32;
                self.line_start = self.offset + newline + 1;
                self.column = source[self.line_start..offset].chars().count() as u32;
            }
            None => self.column += passed.chars().count() as u32,
        }
        self.offset = offset;
        Position {
            line: self.line + 1,
            column: self.column + 1,
        }
    }
}

/// The line around `offset`, cut to a window where it is very long.
fn quote_line(source: &str, line_start: usize, offset: usize) -> String {
    let mut start = line_start;
    if offset - line_start > MAX_LINE * 3 / 4 {
        start = offset - MAX_LINE / 2;
        while !source.is_char_boundary(start) {
            start += 1;
        }
    }
    let rest = &source[start..];
    // Searches only this range: one line may hold a whole file.
    let window = rest
        .char_indices()
        .nth(MAX_LINE)
        .map_or(rest, |(end, _)| &rest[..end]);
    let (line, cut) = match window.find('\n') {
        Some(end) => (&window[..end], false),
        None => (window, window.len() < rest.len()),
    };
    let line = line.trim_end();
    if line.is_empty() && start == line_start {
        return if source.trim().is_empty() {
            "(empty file)"
        } else {
            "(blank line)"
        }
        .to_string();
    }
    format!(
        "{}{line}{}",
        if start > line_start { "…" } else { "" },
        if cut { "…" } else { "" }
    )
}

/// At most `limit` characters of the first line of `text`.
fn excerpt(text: &str, limit: usize) -> String {
    let line = text.lines().next().unwrap_or(text);
    match line.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_string(),
    }
}
