//! Findings that a file says are known: read the file, match, write entries.
//!
//! The form is described in `docs/suppressions.md`, which [`HELP`] repeats in
//! short. Whatever is not understood is an error: a line that is silently
//! skipped would hide, or fail to hide, the wrong thing.

use crate::demangle;
use crate::glob::Glob;
use model::{Finding, HostFrame, Rule, SourceLocation, Subject};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The form of the file, for `ringfence explain suppressions`.
pub const HELP: &str = "\
A file for `--suppressions` holds entries, each a name in brackets and lines `key = value`. An entry suppresses a
finding if all its lines match. Suppressed findings are counted, not shown, and do not make the exit code.

    # the old stencil reads its halo one row too far
    [halo of the old stencil]
    rule = global-out-of-bounds-read
    kernel = stencil3d
    source = stencil.cu:120-124

    rule        the rule's id
    kernel      the launched kernel
    function    the device function that holds the access, or the driver function that the host called
    source      file, file:line or file:first-last of the access; a file name without folders matches in any folder
    object      the name of the variable, array or region that the pointer came from
    frame       a function of the host's call stacks (launch, call, allocation, free); may be given several times, then
                each must be found

`*` stands for any text and `?` for any character. Functions are matched as written (with or without parameters) or
mangled. `#` begins a comment line. `--gen-suppressions` prints an entry after each finding.";

/// What a file holds.
#[derive(Debug, Default)]
pub struct Suppressions {
    entries: Vec<Entry>,
}

/// One entry of a file.
#[derive(Debug)]
struct Entry {
    name: String,
    line: u32,
    rule: Option<Glob>,
    kernel: Option<Glob>,
    function: Option<Glob>,
    source: Option<Source>,
    object: Option<Glob>,
    frames: Vec<Glob>,
    used: AtomicU64,
}

#[derive(Debug)]
struct Source {
    file: Glob,
    lines: Option<(u32, u32)>,
}

/// Why a file is not one of suppressions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct SuppressionError {
    /// Line in the file, from 1.
    pub line: u32,
    /// What is wrong with it, and what is expected.
    pub message: String,
}

const KEYS: &str = "rule, kernel, function, source, object, frame";

impl Suppressions {
    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// The first line that is not understood.
    pub fn parse(text: &str) -> Result<Suppressions, SuppressionError> {
        let mut entries: Vec<Entry> = Vec::new();
        for (number, line) in (1u32..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fail = |message: String| SuppressionError {
                line: number,
                message,
            };
            if let Some(rest) = line.strip_prefix('[') {
                complete(entries.last())?;
                let name = rest
                    .strip_suffix(']')
                    .map(str::trim)
                    .filter(|name| !name.is_empty())
                    .ok_or_else(|| fail("expected [name of the entry]".into()))?;
                entries.push(Entry::new(name, number));
                continue;
            }
            let (key, value) = line
                .split_once('=')
                .map(|(key, value)| (key.trim(), value.trim()))
                .filter(|(_, value)| !value.is_empty())
                .ok_or_else(|| {
                    fail(format!(
                        "expected [name], key = value or # comment, not `{line}`"
                    ))
                })?;
            let entry = entries
                .last_mut()
                .ok_or_else(|| fail(format!("`{key}` stands before the first [name]")))?;
            entry.set(key, value).map_err(fail)?;
        }
        complete(entries.last())?;
        Ok(Suppressions { entries })
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file, and what is wrong with it.
    pub fn read(path: &Path) -> Result<Suppressions, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read the suppressions in {shown}: {error}"))?;
        Suppressions::parse(&text).map_err(|error| format!("{shown}: {error}"))
    }

    /// The entry that suppresses a finding, if one does; it counts as used.
    pub fn find(&self, finding: &Finding) -> Option<String> {
        let entry = self.entries.iter().find(|entry| entry.matches(finding))?;
        entry.used.fetch_add(1, Ordering::Relaxed);
        Some(entry.title())
    }

    /// Entries that none of these titles, as [`Suppressions::find`] returns
    /// them, names.
    pub fn unused<'a>(&self, used: impl IntoIterator<Item = &'a str> + Clone) -> Vec<String> {
        self.entries
            .iter()
            .map(Entry::title)
            .filter(|title| !used.clone().into_iter().any(|one| one == title))
            .collect()
    }

    /// Entries that suppressed nothing so far.
    pub fn idle(&self) -> Vec<String> {
        self.entries
            .iter()
            .filter(|entry| entry.used.load(Ordering::Relaxed) == 0)
            .map(Entry::title)
            .collect()
    }
}

/// An entry without conditions would suppress everything.
fn complete(entry: Option<&Entry>) -> Result<(), SuppressionError> {
    match entry {
        Some(entry) if entry.is_empty() => Err(SuppressionError {
            line: entry.line,
            message: format!(
                "[{}] has no condition; give at least one of {KEYS}",
                entry.name
            ),
        }),
        _ => Ok(()),
    }
}

impl Entry {
    fn new(name: &str, line: u32) -> Entry {
        Entry {
            name: name.to_string(),
            line,
            rule: None,
            kernel: None,
            function: None,
            source: None,
            object: None,
            frames: Vec::new(),
            used: AtomicU64::new(0),
        }
    }

    /// Names may repeat; with its line an entry is found again.
    fn title(&self) -> String {
        format!("{} (line {})", self.name, self.line)
    }

    fn is_empty(&self) -> bool {
        self.rule.is_none()
            && self.kernel.is_none()
            && self.function.is_none()
            && self.source.is_none()
            && self.object.is_none()
            && self.frames.is_empty()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let slot = match key {
            "rule" => {
                let glob = Glob::new(value);
                if !Rule::ALL.iter().any(|rule| glob.matches(rule.id())) {
                    return Err(format!(
                        "no rule is called `{value}`; `ringfence explain` lists them"
                    ));
                }
                &mut self.rule
            }
            "kernel" => &mut self.kernel,
            "function" => &mut self.function,
            "object" => &mut self.object,
            "frame" => {
                self.frames.push(Glob::new(value));
                return Ok(());
            }
            "source" => {
                if self.source.replace(Source::parse(value)?).is_some() {
                    return Err("`source` is given twice in this entry".into());
                }
                return Ok(());
            }
            _ => return Err(format!("unknown key `{key}`; known are {KEYS}")),
        };
        if slot.replace(Glob::new(value)).is_some() {
            return Err(format!("`{key}` is given twice in this entry"));
        }
        Ok(())
    }

    fn matches(&self, finding: &Finding) -> bool {
        let is =
            |wanted: &Option<Glob>, test: &dyn Fn(&Glob) -> bool| wanted.as_ref().is_none_or(test);
        let function = match &finding.subject {
            Subject::Access(access) => Some(access.function.as_str()),
            Subject::Kernel(run) => Some(run.kernel.as_str()),
            Subject::Call(call) => Some(call.function.as_str()),
            Subject::Failure(failure) => failure.kernel(),
            Subject::Leak => None,
        };
        let kernel = match &finding.subject {
            Subject::Access(access) => Some(access.kernel.as_str()),
            Subject::Kernel(run) => Some(run.kernel.as_str()),
            Subject::Failure(failure) => failure.kernel(),
            Subject::Call(_) | Subject::Leak => None,
        };
        let object = finding
            .intended
            .as_ref()
            .and_then(|near| near.allocation.name.as_deref());
        is(&self.rule, &|glob| glob.matches(finding.rule.id()))
            && is(&self.kernel, &|glob| {
                kernel.is_some_and(|name| names(glob, name))
            })
            && is(&self.function, &|glob| {
                function.is_some_and(|name| names(glob, name))
            })
            && is(&self.object, &|glob| {
                object.is_some_and(|name| names(glob, name))
            })
            && self
                .source
                .as_ref()
                .is_none_or(|source| source.matches(finding))
            && self
                .frames
                .iter()
                .all(|glob| frames(finding).any(|frame| names(glob, &frame.function)))
    }
}

/// Whether a glob matches a function or variable: mangled, demangled, or
/// demangled without its parameters.
fn names(glob: &Glob, name: &str) -> bool {
    let full = demangle(name);
    let head = full.split('(').next().unwrap_or_default();
    // The names of templates begin with return types.
    let bare = head.strip_prefix("void ").unwrap_or(head);
    [name, full.as_str(), head, bare]
        .iter()
        .any(|text| glob.matches(text))
}

fn frames(finding: &Finding) -> impl Iterator<Item = &HostFrame> {
    let by: &[HostFrame] = match &finding.subject {
        Subject::Access(access) => &access.launched_at,
        Subject::Kernel(run) => &run.launched_at,
        Subject::Call(call) => &call.called_at,
        Subject::Failure(failure) => failure.frames(),
        Subject::Leak => &[],
    };
    let history = finding
        .intended
        .iter()
        .flat_map(|near| near.allocated_at.iter().chain(&near.freed_at));
    by.iter().chain(history)
}

impl Source {
    fn parse(text: &str) -> Result<Source, String> {
        // A drive letter or a glob may hold colons: lines stand after the last.
        let lines = text.rsplit_once(':').and_then(|(file, lines)| {
            let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
            let digits = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
            (digits(first) || digits(last)).then_some((file, first, last))
        });
        let Some((file, first, last)) = lines else {
            return Ok(Source {
                file: Glob::new(text),
                lines: None,
            });
        };
        let number = |text: &str| text.parse::<u32>().ok();
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Source {
                file: Glob::new(file),
                lines: Some((first, last)),
            }),
            _ => Err(format!(
                "`{text}`: expected file, file:line or file:first-last"
            )),
        }
    }

    fn matches(&self, finding: &Finding) -> bool {
        let access = finding.access().and_then(|access| access.source.as_ref());
        let stopped = finding.failure().and_then(|failure| failure.source());
        let device = access
            .or(stopped)
            .into_iter()
            .flat_map(SourceLocation::chain)
            .any(|place| self.is(&place.file, place.line));
        device
            || finding.call().is_some_and(|call| self.any(&call.called_at))
            || finding
                .kernel_run()
                .is_some_and(|run| self.any(&run.launched_at))
            || finding
                .failure()
                .is_some_and(|failure| self.any(failure.frames()))
            || (finding.subject == Subject::Leak
                && finding
                    .intended
                    .as_ref()
                    .is_some_and(|leaked| self.any(&leaked.allocated_at)))
    }

    fn any(&self, frames: &[HostFrame]) -> bool {
        frames.iter().any(|frame| match (&frame.file, frame.line) {
            (Some(file), Some(line)) => self.is(file, line),
            _ => false,
        })
    }

    fn is(&self, file: &str, line: u32) -> bool {
        let name = file.rsplit('/').next().unwrap_or(file);
        self.lines
            .is_none_or(|(first, last)| (first..=last).contains(&line))
            && (self.file.matches(file) || self.file.matches(name))
    }
}

/// An entry that suppresses a finding and others of its kind at its place.
pub fn entry_for(finding: &Finding) -> String {
    let mut text = String::new();
    let rule = finding.rule.id();
    let mut lines = vec![("rule", rule.to_string())];
    let place = match &finding.subject {
        Subject::Access(access) => {
            if !access.kernel.is_empty() {
                lines.push(("kernel", access.kernel.clone()));
            }
            if access.function != access.kernel {
                lines.push(("function", access.function.clone()));
            }
            // The outermost call is the program's own line.
            let place = access
                .source
                .as_ref()
                .and_then(|source| source.chain().last());
            place.map(|place| (place.file.as_str(), place.line))
        }
        Subject::Kernel(run) => {
            lines.push(("kernel", run.kernel.clone()));
            first_place(&run.launched_at)
        }
        Subject::Call(call) => {
            lines.push(("function", call.function.clone()));
            first_place(&call.called_at)
        }
        Subject::Failure(failure) => {
            if let Some(kernel) = failure.kernel().filter(|kernel| !kernel.is_empty()) {
                lines.push(("kernel", kernel.to_owned()));
            }
            let source = failure.source().and_then(|source| source.chain().last());
            source
                .map(|place| (place.file.as_str(), place.line))
                .or_else(|| first_place(failure.frames()))
        }
        Subject::Leak => finding
            .intended
            .as_ref()
            .and_then(|leaked| first_place(&leaked.allocated_at)),
    };
    if let Some((file, line)) = place {
        let name = file.rsplit('/').next().unwrap_or(file);
        lines.push(("source", format!("{}:{line}", Glob::escape(name))));
    } else if let Subject::Leak | Subject::Call(_) = finding.subject {
        let frames = match &finding.subject {
            Subject::Call(call) => &call.called_at,
            _ => finding
                .intended
                .as_ref()
                .map_or(&[][..], |near| &near.allocated_at),
        };
        lines.extend(
            frames
                .iter()
                .take(3)
                .map(|frame| ("frame", Glob::escape(&frame.function))),
        );
    }
    if let Some(name) = finding
        .intended
        .as_ref()
        .and_then(|near| near.allocation.name.as_ref())
    {
        lines.push(("object", name.clone()));
    }
    let title = match place {
        Some((file, line)) => format!(
            "{rule} at {}:{line}",
            file.rsplit('/').next().unwrap_or(file)
        ),
        None => rule.to_string(),
    };
    // Names are input of the program: a newline in one must not become a line.
    let clean = |text: &str| text.replace(['\n', '\r'], " ");
    let _ = writeln!(text, "[{}]", clean(&title));
    for (key, value) in lines {
        let _ = writeln!(text, "{key} = {}", clean(&value));
    }
    text
}

fn first_place(frames: &[HostFrame]) -> Option<(&str, u32)> {
    frames
        .iter()
        .find_map(|frame| Some((frame.file.as_deref()?, frame.line?)))
}

#[cfg(test)]
mod tests;
