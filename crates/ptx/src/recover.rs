//! Where parsing continues after an error, so that one error hides no other.
//! Must always make progress.

use crate::TokenKind;
use crate::cursor::Cursor;

impl Cursor<'_> {
    /// Skip to where parsing can go on after an error in the statement or
    /// item that began at `start`. Always makes progress.
    pub fn recover(&mut self, start: u32, in_body: bool) {
        let mut depth = 0usize;
        // Braces around statements are a scope, which ends what is skipped;
        // others are a vector or an initializer.
        let mut has_statements = false;
        loop {
            if self.token.at_end {
                return;
            }
            if depth == 0 && self.token.start > start && self.at_fresh_line() {
                // Only the end of the statement before is missing.
                let begins = match self.token.kind {
                    TokenKind::Word | TokenKind::Punct(b'@') => in_body,
                    TokenKind::Directive => in_body || begins_item(self.text()),
                    _ => false,
                };
                if begins {
                    return;
                }
            }
            match self.token.kind {
                TokenKind::Punct(b';') if depth == 0 => {
                    self.bump();
                    return;
                }
                TokenKind::Punct(b';') => has_statements = true,
                TokenKind::Punct(b'{') => depth += 1,
                TokenKind::Punct(b'}') => {
                    if depth == 0 {
                        // In a body it closes the body; at file scope it is stray.
                        if !in_body {
                            self.bump();
                        }
                        return;
                    }
                    depth -= 1;
                    if depth == 0 && has_statements {
                        self.bump();
                        return;
                    }
                }
                _ => {}
            }
            self.bump();
        }
    }
}

/// Directives that begin something at file scope.
pub(crate) fn begins_item(text: &str) -> bool {
    matches!(
        text,
        ".version"
            | ".target"
            | ".address_size"
            | ".file"
            | ".entry"
            | ".func"
            | ".visible"
            | ".extern"
            | ".weak"
            | ".common"
            | ".section"
            | ".alias"
            | ".global"
            | ".const"
            | ".shared"
    )
}
