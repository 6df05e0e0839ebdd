//! The output of findings, errors and coverage: text for people, session events
//! for the command. A forked child writes to neither of its parent's files
//! until it executes another program.

use crate::stderr::{without_sigpipe, write_stderr};
use model::{Coverage, Finding, Settings};
use parking_lot::Mutex;
use report::{Event, Suppressions};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the findings, errors and coverage of this process are written.
pub struct Output {
    pid: u32,
    text: Mutex<Text>,
    session: Option<Mutex<File>>,
    print_limit: u64,
    found: AtomicU64,
    suppressions: Suppressions,
    /// Numbers of the findings that an entry suppresses.
    suppressed: Mutex<BTreeSet<u64>>,
    gen_suppressions: bool,
    said: Mutex<BTreeSet<String>>,
}

enum Text {
    Stderr,
    File(File),
}

impl Text {
    /// What cannot be written to the terminal is lost, as the program's own
    /// output would be.
    fn write(&mut self, text: &str) {
        match self {
            Text::Stderr => write_stderr(text),
            // It may be a pipe, too.
            Text::File(file) => without_sigpipe(|| drop(file.write_all(text.as_bytes()))),
        }
    }
}

impl Output {
    /// Opens the log and session files. `part` distinguishes this part of
    /// Ringfence from another one in the same process; empty if it is the only
    /// one.
    ///
    /// # Errors
    ///
    /// Which file could not be opened and why.
    pub fn open(settings: &Settings, part: &str) -> Result<Output, String> {
        let pid = std::process::id();
        let append = |path: &std::path::Path| {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            opened.map_err(|error| format!("cannot write to {}: {error}", path.display()))
        };
        let text = match &settings.log_file {
            None => Text::Stderr,
            Some(pattern) => {
                let name = report::expand_file_name(pattern, pid, |key| std::env::var(key).ok())?;
                Text::File(append(name.as_ref())?)
            }
        };
        let session = match &settings.session {
            None => None,
            Some(directory) => Some(Mutex::new(append(
                &directory.join(format!("{pid}{part}.jsonl")),
            )?)),
        };
        let suppressions = match &settings.suppressions {
            None => Suppressions::default(),
            Some(path) => Suppressions::read(path)?,
        };
        Ok(Output {
            pid,
            text: Mutex::new(text),
            session,
            print_limit: u64::from(settings.print_limit),
            found: AtomicU64::new(0),
            suppressions,
            suppressed: Mutex::default(),
            gen_suppressions: settings.gen_suppressions,
            said: Mutex::new(BTreeSet::new()),
        })
    }

    /// Whether this process is the one that was started.
    pub fn is_ours(&self) -> bool {
        std::process::id() == self.pid
    }

    /// Whether a command collects the results and ends with the summary.
    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Reports a finding at its first occurrence; `id` counts findings from 1.
    /// Returns whether it is not suppressed.
    pub fn finding(&self, id: u64, finding: &Finding) -> bool {
        let suppressed = self.suppressions.find(finding);
        let shown = suppressed.is_none();
        self.event(&Event::Finding {
            id,
            finding: Box::new(finding.clone()),
            suppressed,
        });
        if !shown {
            self.suppressed.lock().insert(id);
            return false;
        }
        let before = self.found.fetch_add(1, Ordering::Relaxed);
        if before < self.print_limit {
            self.line(&report::finding(finding));
            if self.gen_suppressions {
                self.line(&report::suppress::entry_for(finding));
            }
        } else if before == self.print_limit {
            self.line(&format!(
                "========= print limit of {} reached: further findings are counted, not shown\n",
                self.print_limit
            ));
        }
        true
    }

    /// Prints how many findings the print limit suppressed.
    pub fn count_hidden(&self) {
        let hidden = self
            .found
            .load(Ordering::Relaxed)
            .saturating_sub(self.print_limit);
        if hidden > 0 {
            let plural = if hidden == 1 { " was" } else { "s were" };
            self.line(&format!(
                "========= {hidden} more finding{plural} not shown\n"
            ));
        }
    }

    /// Puts the sums of findings, by number and occurrences, into totals.
    pub fn count(&self, occurrences: &[(u64, u64)], totals: &mut report::Totals) {
        let suppressed = self.suppressed.lock();
        for (id, occurrences) in occurrences {
            if suppressed.contains(id) {
                totals.suppressed += 1;
                totals.suppressed_occurrences += occurrences;
            } else {
                totals.findings += 1;
                totals.occurrences += occurrences;
            }
        }
        totals.unused_suppressions = self.suppressions.idle();
    }

    /// What was checked so far; `complete`: this is final.
    pub fn coverage(&self, coverage: &Coverage, complete: bool) {
        self.event(&Event::Coverage {
            coverage: Box::new(coverage.clone()),
            complete,
        });
    }

    /// Reports an error, each message once.
    pub fn error(&self, message: &str, fatal: bool) {
        if !self.said.lock().insert(message.to_string()) {
            return;
        }
        self.event(&Event::Error {
            message: message.to_string(),
            fatal,
        });
        self.line(&format!(
            "ringfence: {}: {message}\n",
            if fatal { "error" } else { "warning" }
        ));
    }

    /// Text for people, with its newlines.
    pub fn line(&self, text: &str) {
        if self.is_ours() {
            self.text.lock().write(text);
        }
    }

    /// A line for the command.
    pub fn event(&self, event: &Event) {
        let Some(session) = &self.session else { return };
        if !self.is_ours() {
            return;
        }
        let written = serde_json::to_string(event)
            .map_err(std::io::Error::other)
            // One write, so that a process which dies leaves whole lines.
            .and_then(|line| session.lock().write_all((line + "\n").as_bytes()));
        if let Err(error) = written {
            self.text.lock().write(&format!(
                "ringfence: error: cannot write to the session directory: {error}\n"
            ));
        }
    }
}
