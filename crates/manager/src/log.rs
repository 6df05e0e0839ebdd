//! Lines for the administrator.

use std::io::Write;

/// Writes a line to stderr; what that does not take is lost.
pub(crate) fn line(text: &str) {
    let _ = std::io::stderr().write_all(format!("ringfence: {text}\n").as_bytes());
}

/// The text without what a terminal would act on: it comes from a tenant.
pub(crate) fn clean(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(shown).collect()
}
