//! Runs the commands that README.md and docs show, and checks that the options
//! that they name exist.
//!
//! A block that is fenced as `sh` is run, line by line, in a folder that holds
//! [`PROGRAM`] and [`SUPPRESSIONS`], with `ringfence` on PATH. One that is
//! fenced as `sh no_run` needs a GPU, a network, much time or a program that is
//! not here; only its options are checked.

use crate::build::Built;
use crate::command::{command, output};
use crate::markdown::{Fence, code, fences};
use crate::pages::{self, Page};
use crate::workspace::target;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use suite::judge::EXIT_FINDINGS;

/// A CUDA program with a bug, by which commands end with findings.
const PROGRAM: &str = "app";
/// A file of known findings without entries.
const SUPPRESSIONS: &str = "known.txt";
/// Longer than any command may take.
const LIMIT_SECONDS: &str = "120";

/// The labels that blocks may have. Only the first two hold commands.
#[cfg(test)]
const LABELS: [&str; 7] = ["sh", "sh no_run", "text", "json", "cpp", "yaml", "toml"];

/// Options of other programs that the pages mention.
const OTHERS: [&str; 4] = ["--dry-run", "--gres", "--path", "--release"];

/// Runs commands and checks options. Returns the number of commands that ran.
///
/// # Errors
///
/// A command failed, or an option is not known. The error names all of them.
pub fn check(built: &Built, program: &Path) -> Result<u64> {
    let pages = pages::all()?;
    let known = Options::read(built)?;
    let mut problems: Vec<String> = Vec::new();
    for page in &pages {
        problems.extend(known.unknown(page));
    }
    let mut ran = 0;
    for page in &pages {
        let blocks = fences(&page.text);
        let blocks: Vec<&Fence<'_>> = blocks.iter().filter(|block| block.label == "sh").collect();
        if blocks.is_empty() {
            continue;
        }
        let folder = prepare(page, program)?;
        for block in blocks {
            for line in commands(block) {
                ran += 1;
                if let Err(error) = run(built, &folder, &line) {
                    problems.push(format!("{}:{}: {error:#}", page.name.display(), block.line));
                }
            }
        }
    }
    ensure!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
    println!("{ran} commands of the documentation ran");
    Ok(ran)
}

/// The folder in which a page's commands run.
fn prepare(page: &Page, program: &Path) -> Result<std::path::PathBuf> {
    let name = page.name.file_stem().context("a page without a name")?;
    let folder = target().join("documented").join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("failed to clear {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("failed to make {}", folder.display()))?;
    std::fs::copy(program, folder.join(PROGRAM))
        .with_context(|| format!("failed to copy {}", program.display()))?;
    std::fs::write(folder.join(SUPPRESSIONS), "# none yet\n")?;
    Ok(folder)
}

/// The commands of a block: its lines, with continuations joined. Lines that
/// hold comments alone are none.
fn commands(block: &Fence<'_>) -> Vec<String> {
    let joined = block.body.join("\n").replace("\\\n", " ");
    joined
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// Runs a command. It ends with 0, or as a run with findings does: all other
/// codes say that the command is not what it should be.
fn run(built: &Built, folder: &Path, line: &str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(built.folder.clone()).chain(std::env::split_paths(&path));
    let mut shell = command("timeout", [LIMIT_SECONDS, "sh", "-c", line]);
    shell
        .current_dir(folder)
        .env("PATH", std::env::join_paths(folders)?);
    for name in ["RINGFENCE_OPTIONS", "RINGFENCE_LIBRARY"] {
        shell.env_remove(name);
    }
    let done = shell
        .output()
        .with_context(|| format!("failed to start `{line}`"))?;
    ensure!(
        matches!(done.status.code(), Some(code) if code == 0 || code == EXIT_FINDINGS),
        "`{line}` ended with {}:\n{}",
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(())
}

/// The options of Ringfence's programs, by subcommand, as their help names
/// them.
struct Options(BTreeMap<&'static str, String>);

impl Options {
    fn read(built: &Built) -> Result<Options> {
        let help = |program: &str, subcommand: &str| {
            output(&mut command(
                built.folder.join(program),
                [subcommand, "--help"],
            ))
        };
        let mut of = BTreeMap::new();
        for subcommand in [
            "run",
            "instrument",
            "inspect",
            "explain",
            "manager",
            "tenants",
            "cdi",
        ] {
            of.insert(subcommand, help("ringfence", subcommand)?);
        }
        of.insert("foreign", help("ringfence-suite", "foreign")?);
        // Options of all that `ringfence slice` does.
        let parts = ["add", "remove", "list", "env"].map(|part| {
            let part = ["slice", part, "--help"];
            output(&mut command(built.folder.join("ringfence"), part))
        });
        of.insert("slice", parts.into_iter().collect::<Result<String>>()?);
        let mut plugin = command(&built.plugin, ["--help"]);
        of.insert("ringfence-device-plugin", output(&mut plugin)?);
        let mut driver = command(&built.dra_driver, ["--help"]);
        of.insert("ringfence-dra-driver", output(&mut driver)?);
        Ok(Options(of))
    }

    /// Options that a page names and no program has.
    fn unknown(&self, page: &Page) -> Vec<String> {
        let mut unknown = Vec::new();
        let mut say = |text: String| unknown.push(format!("{}: {text}", page.name.display()));
        for block in fences(&page.text) {
            if !block.label.starts_with("sh") {
                continue;
            }
            for line in commands(&block) {
                let Some((subcommand, options)) = options(&line) else {
                    continue;
                };
                let Some(help) = self.0.get(subcommand) else {
                    say(format!("`{line}`: there is no `ringfence {subcommand}`"));
                    continue;
                };
                for option in options.into_iter().filter(|option| !names(help, option)) {
                    say(format!("`{line}`: {subcommand} has no {option}"));
                }
            }
        }
        for word in code(&page.text) {
            let option = word.split([' ', '=']).next().unwrap_or(word);
            if option.starts_with("--")
                && option.len() > 2
                && !OTHERS.contains(&option)
                && !xtask_options().iter().any(|known| known == option)
                && !self.0.values().any(|help| names(help, option))
            {
                say(format!("no program has `{word}`"));
            }
        }
        unknown
    }
}

/// The options of xtask's own steps.
fn xtask_options() -> Vec<String> {
    use clap::CommandFactory;
    crate::Arguments::command()
        .get_subcommands()
        .flat_map(|step| step.get_arguments())
        .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
        .collect()
}

/// Subcommand and options of a call of `ringfence`, up to the program that it
/// runs.
fn options(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut words = line
        .split_whitespace()
        .skip_while(|word| word.contains('=') && !word.starts_with('-'));
    let name = words.next()?;
    if name != "ringfence" {
        return None;
    }
    let subcommand = words.next()?;
    let options = words
        .take_while(|word| !matches!(*word, "--" | "|" | ">" | "#") && !word.starts_with("./"))
        .filter(|word| word.starts_with("--"))
        .map(|word| word.split('=').next().unwrap_or(word))
        .collect();
    Some((subcommand, options))
}

/// Whether a help text names an option, and not only a longer one.
fn names(help: &str, option: &str) -> bool {
    help.match_indices(option).any(|(at, _)| {
        !help[at + option.len()..].starts_with(|next: char| next == '-' || next.is_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn every_block_says_what_it_is() {
        for page in pages::all().unwrap() {
            for block in fences(&page.text) {
                let at = format!("{}:{}", page.name.display(), block.line);
                assert!(
                    LABELS.contains(&block.label),
                    "{at}: the label `{}`",
                    block.label
                );
                let is_command = |line: &&str| {
                    ["ringfence ", "cargo ", "RINGFENCE_OPTIONS="]
                        .iter()
                        .any(|start| line.starts_with(start))
                };
                let commands = block.body.iter().filter(|line| is_command(line)).count();
                assert!(
                    block.label.starts_with("sh") || commands == 0,
                    "{at} holds commands and is not fenced as `sh`"
                );
            }
        }
    }

    #[test]
    fn every_step_that_is_named_exists() {
        let mut seen = 0;
        for page in pages::all().unwrap() {
            let blocks = fences(&page.text);
            let lines = blocks
                .iter()
                .filter(|block| block.label.starts_with("sh"))
                .flat_map(commands);
            let quoted = code(&page.text).into_iter().map(str::to_owned);
            for line in lines.chain(quoted) {
                let Some(step) = line.strip_prefix("cargo xtask ") else {
                    continue;
                };
                let words = step.split('#').next().unwrap_or(step).split_whitespace();
                let parsed =
                    crate::Arguments::try_parse_from(std::iter::once("xtask").chain(words));
                let page = page.name.display();
                assert!(parsed.is_ok(), "{page}: `{line}`: {:?}", parsed.err());
                seen += 1;
            }
        }
        assert!(seen > 3, "no steps are named");
    }

    #[test]
    fn commands_end_with_success_or_findings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let built = Built {
            command: path.join("ringfence"),
            plugin: path.join("ringfence-device-plugin"),
            dra_driver: path.join("ringfence-dra-driver"),
            library: path.join("libringfence.so"),
            opencl: path.join("libringfence_opencl.so"),
            cudart: path.join("cudart"),
            folder: path.to_owned(),
        };
        for (line, is_good) in [
            ("true", true),
            ("exit 98", true),
            ("exit 97", false),
            ("no-such-program", false),
        ] {
            assert_eq!(run(&built, path, line).is_ok(), is_good, "{line}");
        }
    }

    #[test]
    fn commands_are_lines_with_their_continuations() {
        let text = "```sh\n# first\na b \\\n  c\n\nd   # why\n```\n";
        assert_eq!(commands(&fences(text)[0]), ["a b    c", "d   # why"]);
    }

    #[test]
    fn options_end_at_the_program() {
        assert_eq!(
            options("X=1 ringfence run --json r.json --prove=off -- ./app --seed 3"),
            Some(("run", vec!["--json", "--prove"]))
        );
        assert_eq!(
            options("ringfence inspect --json ./app --no"),
            Some(("inspect", vec!["--json"]))
        );
        assert_eq!(options("grep -v --x y"), None);
        assert!(names("  --json <FILE>", "--json") && !names("  --json-lines", "--json"));
    }

    #[test]
    fn options_that_no_program_has_are_named() {
        let known = Options(BTreeMap::from([("run", "--json <FILE>".into())]));
        let page = Page {
            name: "a.md".into(),
            text: "`--json FILE`, `--jsn`, `--root`\n```sh no_run\nringfence run --sarif x -- ./app\nringfence walk\n```\n"
                .into(),
        };
        assert_eq!(
            known.unknown(&page),
            [
                "a.md: `ringfence run --sarif x -- ./app`: run has no --sarif",
                "a.md: `ringfence walk`: there is no `ringfence walk`",
                "a.md: no program has `--jsn`",
            ]
        );
    }
}
