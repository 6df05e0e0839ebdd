//! Keeps reports, for tests.

use crate::findings::{CallError, Culprit, Damaged, Overwritten, Report};
use heap::canary::Side;
use model::{Note, UncheckedReason};
use parking_lot::Mutex;

/// What was reported, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    Checked(String),
    Unchecked(String, UncheckedReason),
    Bare(String, Vec<String>),
    Note(Note),
    Error(String),
    /// Kernel or function, argument, serial number of the buffer, side, and
    /// bytes to the nearest that changed.
    Overwritten(String, Option<u32>, u64, Side, u64),
    Call(&'static str, String),
}

/// Keeps reports as [`Kept`].
#[derive(Default)]
pub struct Recorder(Mutex<Vec<Kept>>);

impl Recorder {
    /// What was reported since this was called last.
    pub fn take(&self) -> Vec<Kept> {
        std::mem::take(&mut self.0.lock())
    }

    /// The same without notes.
    pub fn take_findings(&self) -> Vec<Kept> {
        let all = self.take().into_iter();
        all.filter(|one| !matches!(one, Kept::Note(_))).collect()
    }
}

impl Report for Recorder {
    fn checked(&self, kernel: &str) {
        self.0.lock().push(Kept::Checked(kernel.to_owned()));
    }

    fn unchecked(&self, kernel: &str, reason: UncheckedReason) {
        let kept = Kept::Unchecked(kernel.to_owned(), reason);
        self.0.lock().push(kept);
    }

    fn bare(&self, kernel: &str, arguments: &[String]) {
        if !arguments.is_empty() {
            let kept = Kept::Bare(kernel.to_owned(), arguments.to_vec());
            self.0.lock().push(kept);
        }
    }

    fn note(&self, note: Note) {
        self.0.lock().push(Kept::Note(note));
    }

    fn error(&self, message: &str) {
        self.0.lock().push(Kept::Error(message.to_owned()));
    }

    fn overwritten(&self, found: &Overwritten<'_>) {
        let who = match found.culprit {
            Culprit::Kernel(launch) => launch.kernel.name.clone(),
            Culprit::Host { action, .. } => action.function.to_owned(),
        };
        let (side, nearest) = match found.damage {
            Damaged::Bytes(damage) => (damage.side, damage.nearest),
            Damaged::Pixels(damage) => (Side::After, damage.nearest),
        };
        let serial = found.buffer.serial;
        let kept = Kept::Overwritten(who, found.argument, serial, side, nearest);
        self.0.lock().push(kept);
    }

    fn call(&self, error: CallError) {
        self.0.lock().push(Kept::Call(error.function, error.detail));
    }
}
