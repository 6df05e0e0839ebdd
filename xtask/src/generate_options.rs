//! Writes `docs/options.md` from the table of settings, and the table of exit
//! codes in `docs/troubleshooting.md`.

use crate::workspace::root;
use anyhow::{Context, Result, ensure};
use model::exit_code::{EXIT_CODES, SIGNAL};
use model::settings::{CommandOption, SECTIONS, Setting};
use std::fmt::Write as _;

/// Regenerates both, or with `check` only says whether what is committed
/// differs.
///
/// # Errors
///
/// A file cannot be read or written, or differs.
pub fn run(check: bool) -> Result<()> {
    write("docs/options.md", &page()?, check)?;
    let name = "docs/troubleshooting.md";
    let text = std::fs::read_to_string(root().join(name))
        .with_context(|| format!("failed to read {name}"))?;
    let text = between(&text, BEGIN, END, &exit_codes()?)
        .with_context(|| format!("{name} has no `{BEGIN}` with `{END}` behind it"))?;
    write(name, &text, check)
}

fn write(name: &str, text: &str, check: bool) -> Result<()> {
    let path = root().join(name);
    if std::fs::read_to_string(&path).unwrap_or_default() == text {
        return Ok(());
    }
    ensure!(
        !check,
        "{name} is not what crates/model gives; run `cargo xtask generate`"
    );
    std::fs::write(&path, text).with_context(|| format!("failed to write {name}"))
}

const BEGIN: &str = "<!-- table:exit-codes -->\n";
const END: &str = "<!-- /table:exit-codes -->\n";

/// A text with something else between two lines.
fn between(text: &str, begin: &str, end: &str, new: &str) -> Option<String> {
    let (before, rest) = text.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}{new}{end}{after}"))
}

const HEAD: &str = "\
<!-- Written by `cargo xtask generate` from crates/model/src/settings/table.rs; do not edit. -->

# Options

`ringfence run [OPTIONS] -- PROGRAM [ARGUMENTS]` takes the options below; `ringfence run --help` lists them, too. Each \
can be given in two ways; the command line takes precedence.

```sh
ringfence run --device cpu --print-limit 10 -- ./app
RINGFENCE_OPTIONS=device=cpu:print-limit=10 ringfence run -- ./app
ringfence run --help
```

`RINGFENCE_OPTIONS` holds pairs `key=value`, separated by colons. A colon or a backslash inside a value is written `\\:` \
or `\\\\`. Switches take `on` or `off`. What the exit codes mean is in [troubleshooting](troubleshooting.md#exit-codes).
";

fn page() -> Result<String> {
    let mut text = HEAD.to_owned();
    for section in SECTIONS {
        writeln!(text, "\n## {}\n", section.title)?;
        text.push_str("| option | in `RINGFENCE_OPTIONS` | value | default | what it does |\n");
        text.push_str("| --- | --- | --- | --- | --- |\n");
        for setting in section.settings {
            writeln!(
                text,
                "| `{}` | `{}` | {} | {} | {} |",
                cell(&option(setting)),
                setting.name,
                cell(&setting.expected()),
                cell(setting.default_text().as_deref().unwrap_or("none")),
                cell(setting.help),
            )?;
        }
    }
    Ok(text)
}

fn exit_codes() -> Result<String> {
    let mut text = "\
| code | meaning |
| --- | --- |
| the program's own | No findings, and something was checked. |
"
    .to_owned();
    for exit in EXIT_CODES {
        writeln!(text, "| {} | {} |", exit.code, cell(exit.meaning))?;
    }
    writeln!(
        text,
        "| {SIGNAL} + N | Signal N killed the program, and there are no findings. |"
    )?;
    Ok(text)
}

/// How the command line gives a setting.
fn option(setting: &Setting) -> String {
    match setting.option {
        CommandOption::Value(value) => format!("--{} {value}", setting.name),
        CommandOption::Flag => format!("--{}", setting.name),
        CommandOption::Negation { option, .. } => format!("--{option}"),
    }
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_pages_are_what_the_tables_give() {
        run(true).unwrap();
    }
}
