//! A finding as text, in the manner of compute-sanitizer's reports.

use crate::demangle;
use model::{AccessKind, AllocationKind, Finding, HostFrame, NearestAllocation, Relation, Space};
use std::fmt::Write;

const PREFIX: &str = "=========";

/// The lines of one finding, each starting with `=========`, the last one
/// empty but for that.
pub fn finding(finding: &Finding) -> String {
    let mut lines = Lines::default();
    lines.push(0, &headline(finding));
    lines.push(1, &place(finding));
    if !finding.kernel.is_empty() && finding.kernel != finding.function {
        lines.push(1, &format!("in kernel {}", demangle(&finding.kernel)));
    }
    let [x, y, z] = finding.thread.thread;
    let [bx, by, bz] = finding.thread.block;
    let launch = if finding.launch == 0 {
        String::new()
    } else {
        format!(", launch {}", finding.launch)
    };
    lines.push(
        1,
        &format!("by thread ({x},{y},{z}) in block ({bx},{by},{bz}){launch}"),
    );
    match (&finding.intended, &finding.nearest) {
        (Some(intended), nearest) => {
            lines.push(
                1,
                &format!("address {} {}", finding.address, relation(intended)),
            );
            lines.push(1, &format!("the pointer came from {}", describe(intended)));
            history(&mut lines, intended);
            if let Some(nearest) = nearest {
                lines.push(1, &format!("{} {}", hits(nearest), describe(nearest)));
                history(&mut lines, nearest);
            }
        }
        (None, Some(nearest)) => {
            lines.push(
                1,
                &format!("address {} {}", finding.address, relation(nearest)),
            );
            lines.push(
                1,
                &format!("that is the nearest allocation, {}", describe(nearest)),
            );
            history(&mut lines, nearest);
        }
        (None, None) => {
            let what = if finding.address.0 < 4096 {
                "a null pointer"
            } else {
                "near no allocation"
            };
            lines.push(1, &format!("address {} is {what}", finding.address));
        }
    }
    if !finding.launched_at.is_empty() {
        lines.push(1, "kernel launched at");
        frames(&mut lines, &finding.launched_at);
    }
    lines.push(
        1,
        &format!(
            "instruction `{}`, line {} of the PTX",
            finding.instruction.trim(),
            finding.ptx_line
        ),
    );
    lines.text.push_str(PREFIX);
    lines.text.push('\n');
    lines.text
}

/// The first line: `Invalid __global__ write of size 4 bytes [rule]`.
pub(crate) fn headline(finding: &Finding) -> String {
    let kind = match finding.kind {
        AccessKind::Read => "read",
        AccessKind::Write => "write",
        AccessKind::Atomic => "atomic",
    };
    let space = match finding.space {
        Space::Generic | Space::Global => "__global__",
        Space::Shared | Space::SharedCluster => "__shared__",
        Space::Local => "__local__",
        Space::Const => "__constant__",
        Space::Param => "parameter",
    };
    let plural = if finding.width == 1 { "" } else { "s" };
    format!(
        "Invalid {space} {kind} of size {} byte{plural} [{}]",
        finding.width,
        finding.rule.id()
    )
}

/// `at scale(float*, int) in demo.cu:39`.
fn place(finding: &Finding) -> String {
    let function = if finding.function.is_empty() {
        &finding.kernel
    } else {
        &finding.function
    };
    let mut text = format!("at {}", demangle(function));
    for (index, source) in finding
        .source
        .iter()
        .flat_map(|source| source.chain())
        .enumerate()
    {
        let word = if index == 0 { "in" } else { "inlined in" };
        let _ = write!(text, " {word} {}:{}", source.file, source.line);
        if source.column != 0 {
            let _ = write!(text, ":{}", source.column);
        }
    }
    text
}

fn relation(near: &NearestAllocation) -> String {
    let size = near.allocation.extent.size;
    match near.relation {
        Relation::After(0) => "is the first byte past the end of its allocation".into(),
        Relation::After(bytes) => {
            format!("is {} past the end of its allocation", count(bytes, "byte"))
        }
        Relation::Before(bytes) => format!(
            "is {} before the start of its allocation",
            count(bytes, "byte")
        ),
        Relation::Inside(bytes) if near.freed => format!(
            "is {} into an allocation that was freed",
            count(bytes, "byte")
        ),
        Relation::Inside(bytes) => {
            format!(
                "is {} into its allocation, {} before its end",
                count(bytes, "byte"),
                count(size.saturating_sub(bytes), "byte")
            )
        }
    }
}

fn hits(near: &NearestAllocation) -> &'static str {
    match near.relation {
        Relation::Inside(_) => "it hits",
        Relation::After(_) | Relation::Before(_) => "the nearest other allocation is",
    }
}

/// `the device allocation #3 of 1,024 bytes at 0x7f0000000000`.
fn describe(near: &NearestAllocation) -> String {
    let allocation = &near.allocation;
    let kind = match allocation.kind {
        AllocationKind::Device => "device allocation",
        AllocationKind::Managed => "managed allocation",
        AllocationKind::Host => "pinned host allocation",
        AllocationKind::HostRegistered => "registered host memory",
        AllocationKind::Pool => "pool allocation",
        AllocationKind::Mapped => "mapped allocation",
        AllocationKind::Variable => "device variable",
        AllocationKind::Foreign => "allocation made outside the hooked calls",
        AllocationKind::DeviceHeap => "allocation made by a kernel",
        AllocationKind::Shared => "shared array",
        AllocationKind::DynamicShared => "dynamic shared memory",
        AllocationKind::Local => "local object",
        AllocationKind::Constant => "constant variable",
        AllocationKind::Parameter => "kernel parameter",
        AllocationKind::Region => "region",
    };
    let state = if near.freed { "freed " } else { "" };
    let name = match &allocation.name {
        Some(name) => format!(" `{}`", demangle(name)),
        None if allocation.serial != 0 => format!(" #{}", allocation.serial),
        None => String::new(),
    };
    format!(
        "the {state}{kind}{name} of {} at {}",
        count(allocation.extent.size, "byte"),
        allocation.extent.base
    )
}

fn history(lines: &mut Lines, near: &NearestAllocation) {
    if !near.allocated_at.is_empty() {
        lines.push(1, "allocated at");
        frames(lines, &near.allocated_at);
    }
    if !near.freed_at.is_empty() {
        lines.push(1, "freed at");
        frames(lines, &near.freed_at);
    }
}

fn frames(lines: &mut Lines, frames: &[HostFrame]) {
    for (index, frame) in frames.iter().enumerate() {
        let mut text = format!("#{index} {}", frame.function);
        match (&frame.file, frame.line, &frame.object) {
            (Some(file), Some(line), _) => drop(write!(text, " in {file}:{line}")),
            (Some(file), None, _) => drop(write!(text, " in {file}")),
            (None, _, Some(object)) => drop(write!(text, " in {object}")),
            (None, _, None) => {}
        }
        lines.push(2, &text);
    }
}

/// `1 byte`, `1,024 bytes`.
pub(crate) fn count(number: u64, unit: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {unit}{plural}", thousands(number))
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn push(&mut self, depth: usize, line: &str) {
        let indent = if depth == 0 { 1 } else { 1 + 4 * depth };
        // Names come from the program: a newline in one must not look like a
        // line of ours.
        let line = line.replace(['\n', '\r'], " ");
        let _ = writeln!(self.text, "{PREFIX}{:indent$}{line}", "");
    }
}

#[cfg(test)]
pub(crate) mod tests;
