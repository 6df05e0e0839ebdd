//! Findings and coverage as text, JSON, SARIF, JUnit XML and session events.
//!
//! Everything here turns data into something to read; nothing here decides
//! what a finding is, and nothing touches a driver. The JSON form is API and
//! versioned ([`json`]); the text may change.

mod demangle;
mod file_name;
mod glob;
pub mod json;
pub mod junit;
mod rules;
pub mod sarif;
pub mod session;
mod summary;
pub mod suppress;
mod text;

pub use demangle::demangle;
pub use file_name::expand_file_name;
pub use rules::{RuleHelp, rule_help, rules};
pub use session::Event;
pub use summary::{Totals, summary};
pub use suppress::{SuppressionError, Suppressions};
pub use text::{count, finding};
