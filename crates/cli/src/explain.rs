//! `ringfence explain`.

use anyhow::{Result, bail};
use std::fmt::Write as _;

/// Prints what a rule means, the form of suppressions, or the list of rules.
pub fn explain(rule: Option<&str>) -> Result<()> {
    let mut text = String::new();
    match rule {
        None => {
            for help in report::rules() {
                writeln!(text, "{:37} {}", help.rule.id(), help.title)?;
            }
        }
        Some("suppressions") => writeln!(text, "{}", report::suppress::HELP)?,
        Some(id) => {
            let Some(help) = report::rule_help(id) else {
                let known: Vec<&str> = report::rules().iter().map(|help| help.rule.id()).collect();
                bail!("no rule is called `{id}`; there are {}", known.join(", "));
            };
            writeln!(text, "{}: {}\n\n{}", help.rule.id(), help.title, help.text)?;
        }
    }
    crate::terminal::print(&text)
}
