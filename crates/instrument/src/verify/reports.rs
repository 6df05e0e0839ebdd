//! Verifies the handling of failed checks: no failure is recorded at the start,
//! a thread writes its record at every exit, and stops or traps only follow the
//! record.

use super::Errors;
use super::checks::{Input, State, Text};
use super::roots::under;
use super::written::{RecordFacts, reads, record_unless_outside, trap_unless_unharmed, word};
use crate::protocol::LABEL_PREFIX;
use crate::protocol::register::{ADDRESS, OUTSIDE, RECORD_BASE, RECORD_SIZE, SITE, UNHARMED};
use ptx::{Instruction, Mnemonic, Span};

/// What is known of records.
#[derive(Default)]
pub(super) struct Reports {
    /// Registers of the record that are zero from the start.
    cleared: u32,
    /// Some check may fail.
    pub(super) has_checks: bool,
    /// A record is left here, under the guard of the next instruction.
    left: Option<Text>,
    /// Where threads leave without one.
    missing: Vec<Span>,
    /// Control can fall out of what was read so far.
    falls_out: bool,
    /// Whether records have the bounds that the address was checked against.
    says_bounds: Option<bool>,
    /// Checks whose bounds the host does not know.
    pub(super) needs_bounds: bool,
}

impl State {
    /// Reads code about records; where it ends.
    pub(super) fn report_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let text = input.new;
        if self.roots.is_head {
            let cleared = [
                format!("mov.u32 {SITE}, 0;"),
                format!("mov.b64 {ADDRESS}, 0;"),
                format!("mov.b64 {RECORD_BASE}, 0;"),
                format!("mov.b64 {RECORD_SIZE}, 0;"),
            ];
            for (bit, expected) in cleared.iter().enumerate() {
                if let Some(end) = reads(text, at, expected) {
                    self.reports.cleared |= 1 << bit;
                    return Some(end);
                }
            }
        }
        let first = word(text, at);
        if first == "setp.eq.s32" || first == "setp.eq.or.s32" {
            return self.record_code(at, input);
        }
        None
    }

    /// Code that leaves a record, if there is one.
    fn record_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let text = input.new;
        let compared = |register: &str| format!("setp.eq.s32 {register}, {SITE}, 0;");
        let under_guard = format!("setp.eq.or.s32 {OUTSIDE}, {SITE}, 0,");
        let (after, leaves_under) = if let Some(after) = reads(text, at, &compared(OUTSIDE)) {
            (after, Some(Text::new()))
        } else if let Some(after) = reads(text, at, &under_guard) {
            let guard = word(text, after).trim_end_matches(';');
            let under = match guard.strip_prefix('!') {
                Some(register) => format!("@{register}"),
                None => format!("@!{guard}"),
            };
            (reads(text, after, &format!("{guard};"))?, Some(under))
        } else {
            (reads(text, at, &compared(UNHARMED))?, None)
        };
        let unless = leaves_under.as_ref().map_or(UNHARMED, |_| OUTSIDE);
        let label =
            word(text, reads(text, after, &format!("@{unless} bra"))?).trim_end_matches(';');
        let number: u32 = label
            .strip_prefix(LABEL_PREFIX)?
            .strip_prefix("done")?
            .parse()
            .ok()?;
        for has_bounds in [true, false] {
            let facts = RecordFacts {
                has_bounds,
                has_launch: input.launch.is_some(),
                tag: input.tag,
                releases: input.releases,
                has_parameter_window: input.has_parameter_window,
            };
            let expected = match leaves_under {
                Some(_) => record_unless_outside(number, facts),
                None => trap_unless_unharmed(number, facts),
            };
            if let Some(end) = reads(text, after, &expected) {
                if *self.reports.says_bounds.get_or_insert(has_bounds) != has_bounds {
                    return None;
                }
                if let Some(guard) = leaves_under {
                    // Its predicate is no verdict any more.
                    self.verdicts.remove(OUTSIDE);
                    self.reports.left = Some(guard);
                }
                return Some(end);
            }
        }
        None
    }

    /// One of the program's instructions is next: a thread may leave there.
    pub(super) fn may_leave(&mut self, old: &Instruction<'_>, new: &Instruction<'_>) {
        let left = self.reports.left.take();
        let mnemonic = old.opcode.mnemonic();
        if matches!(mnemonic, Mnemonic::Ret | Mnemonic::Exit | Mnemonic::Trap)
            && left != Some(under(old))
        {
            self.reports.missing.push(new.span);
        }
        let is_end = matches!(
            mnemonic,
            Mnemonic::Ret | Mnemonic::Exit | Mnemonic::Trap | Mnemonic::Bra | Mnemonic::Brx
        );
        self.reports.falls_out = !(is_end && old.guard.is_none());
    }

    /// A label of the program: what is above it may not be executed.
    pub(super) fn block_begins(&mut self) {
        self.reports.left = None;
    }

    /// If there are checks, their records are left.
    pub(super) fn all_reported(&mut self, input: &Input<'_, '_, '_>, errors: &mut Errors<'_>) {
        let says_bounds = self.reports.says_bounds.unwrap_or(false);
        let cleared = if says_bounds { 0b1111 } else { 0b0011 };
        if self.keeps_records() && self.reports.cleared & cleared != cleared {
            errors.at(input.span, "a record may be left although no check failed");
        }
        if !self.reports.has_checks {
            return;
        }
        if self.reports.falls_out && self.reports.left.as_deref() != Some("") {
            errors.at(
                input.span,
                "a thread leaves at the end of the body without its record",
            );
        }
        for &span in &self.reports.missing {
            errors.at(span, "a thread leaves without its record");
        }
        if self.reports.needs_bounds && !says_bounds {
            errors.at(
                input.span,
                "records do not say what the address was checked against",
            );
        }
    }
}
