//! A finding as text, in the manner of compute-sanitizer's reports.

use crate::demangle;
use model::{
    AccessKind, AllocationKind, DeviceAccess, Failure, Finding, HostCall, HostFrame, KernelRun,
    NearestAllocation, Overwritten, Relation, Rule, RunningKernel, SourceLocation, Space, Subject,
    Watched,
};
use std::fmt::Write;

const PREFIX: &str = "=========";
/// Kernels that a finding names besides the first.
const SHOWN_OTHERS: usize = 8;

/// The lines of one finding, each starting with `=========`, the last one
/// empty but for that.
pub fn finding(finding: &Finding) -> String {
    let mut lines = Lines::default();
    lines.push(0, &headline(finding));
    match &finding.subject {
        Subject::Access(access) => {
            who(&mut lines, access);
            memory(&mut lines, finding, "the pointer came from");
            if !access.launched_at.is_empty() {
                lines.push(1, "kernel launched at");
                frames(&mut lines, &access.launched_at);
            }
            let instruction = access.instruction.trim();
            let line = access.ptx_line;
            lines.push(
                1,
                &format!("instruction `{instruction}`, line {line} of the PTX"),
            );
        }
        Subject::Kernel(run) => {
            doers(&mut lines, run);
            kernel_run(&mut lines, finding.intended.as_ref(), run);
            if let Some(watched) = &run.watched {
                running(&mut lines, watched);
            }
            if !run.launched_at.is_empty() {
                lines.push(1, "kernel launched at");
                frames(&mut lines, &run.launched_at);
            }
        }
        Subject::Call(call) => {
            if !call.detail.is_empty() {
                lines.push(1, &call.detail);
            }
            memory(&mut lines, finding, "the pointer belongs to");
            if !call.called_at.is_empty() {
                lines.push(1, "called at");
                frames(&mut lines, &call.called_at);
            }
        }
        Subject::Failure(failure) => {
            failed(&mut lines, failure);
            if finding.intended.is_some() {
                memory(&mut lines, finding, "the pages there belong to");
            }
        }
        Subject::Leak => {
            if let Some(leaked) = &finding.intended {
                lines.push(1, &format!("{} was never freed", describe(leaked)));
                if finding.occurrences > 1 {
                    let all = count(finding.occurrences, "allocation");
                    let first = "by the same calls were not, this is the first";
                    lines.push(1, &format!("{all} {first}"));
                }
                history(&mut lines, leaked);
            }
        }
    }
    lines.text.push_str(PREFIX);
    lines.text.push('\n');
    lines.text
}

/// Where in the program, and which thread.
fn who(lines: &mut Lines, access: &DeviceAccess) {
    lines.push(1, &place(access));
    if !access.kernel.is_empty() && access.kernel != access.function {
        lines.push(1, &format!("in kernel {}", demangle(&access.kernel)));
    }
    let [x, y, z] = access.thread.thread;
    let [bx, by, bz] = access.thread.block;
    let launch = if access.launch == 0 {
        String::new()
    } else {
        format!(", launch {}", access.launch)
    };
    lines.push(
        1,
        &format!("by thread ({x},{y},{z}) in block ({bx},{by},{bz}){launch}"),
    );
}

/// The kernel that wrote, or those of which one did.
fn doers(lines: &mut Lines, run: &KernelRun) {
    let launch = match run.launch {
        0 => String::new(),
        launch => format!(", launch {launch}"),
    };
    let kernel = match run.kernel.as_str() {
        "" => "a kernel that is not known".into(),
        name => format!("kernel {}", demangle(name)),
    };
    if run.others.is_empty() {
        return lines.push(1, &format!("by {kernel}{launch}"));
    }
    lines.push(
        1,
        &format!("last by {kernel}{launch}, or before it by one of"),
    );
    for name in run.others.iter().take(SHOWN_OTHERS) {
        lines.push(2, &demangle(name));
    }
    if let Some(more) = run
        .others
        .len()
        .checked_sub(SHOWN_OTHERS)
        .filter(|n| *n > 0)
    {
        lines.push(2, &format!("and {more} more"));
    }
}

/// A kernel that the device stopped: where, which one, and which call returned
/// the error.
fn failed(lines: &mut Lines, failure: &Failure) {
    if let Some(stopped) = &failure.stopped {
        lines.push(1, &stopped.detail);
        if let Some(source) = &stopped.source {
            lines.push(1, chain("", source).trim_start());
        }
        let [x, y, z] = stopped.thread.thread;
        let [bx, by, bz] = stopped.thread.block;
        let place = match stopped.ptx_line {
            0 => String::new(),
            line => format!(
                ", `{}`, line {line} of the PTX that ran",
                stopped.instruction
            ),
        };
        lines.push(
            1,
            &format!("by thread ({x},{y},{z}) in block ({bx},{by},{bz}){place}"),
        );
    }
    match failure.kernels.as_slice() {
        [] => lines.push(1, "no kernel is known to have been running"),
        [only] => {
            let launch = match only.launch {
                0 => String::new(),
                launch => format!(", launch {launch}"),
            };
            let name = match only.kernel.as_str() {
                "" => "a kernel of a graph".into(),
                name => format!("kernel {}", demangle(name)),
            };
            lines.push(1, &format!("in {name}{launch}, in {}", only.stream));
        }
        several => {
            lines.push(1, "in one of the kernels that could have been running");
            list_running(lines, several);
        }
    }
    if !failure.launched_at.is_empty() {
        lines.push(1, "kernel launched at");
        frames(lines, &failure.launched_at);
    }
    if !failure.call.is_empty() {
        lines.push(
            1,
            &format!("the error was first returned by {}", failure.call),
        );
        frames(lines, &failure.called_at);
    }
}

/// The kernels that were running when the guard detected it.
fn running(lines: &mut Lines, watched: &Watched) {
    lines.push(1, "seen by the guard while the program was running");
    list_running(lines, &watched.running);
}

fn list_running(lines: &mut Lines, running: &[RunningKernel]) {
    let hidden = running.len().saturating_sub(SHOWN_OTHERS);
    for kernel in running.iter().skip(hidden) {
        let name = match kernel.kernel.as_str() {
            "" => "a graph".into(),
            name => demangle(name),
        };
        let state = match kernel.unfinished {
            Some(true) => ", which had not ended",
            Some(false) => ", which has ended since",
            None => "",
        };
        let launch = match kernel.launch {
            0 => String::new(),
            launch => format!(" launch {launch}"),
        };
        lines.push(2, &format!("{name},{launch} in {}{state}", kernel.stream));
    }
}

/// What a kernel left beside a buffer.
fn kernel_run(lines: &mut Lines, intended: Option<&NearestAllocation>, run: &KernelRun) {
    let way = match &run.argument {
        Some(argument) => format!("through {}", argument_name(argument)),
        None if run.others.is_empty() && !run.kernel.is_empty() && run.watched.is_none() => {
            "through a pointer in memory".into()
        }
        None => "through a pointer that is not known".into(),
    };
    let Some(buffer) = intended else {
        lines.push(1, &way);
        return;
    };
    lines.push(1, &format!("{way}: {}", describe(buffer)));
    lines.push(1, &nearest_overwritten(buffer, &run.overwritten));
    lines.push(1, &extent(buffer.relation, &run.overwritten));
    history(lines, buffer);
}

/// `the first overwritten byte is 4 bytes past the end of its buffer`.
fn nearest_overwritten(buffer: &NearestAllocation, overwritten: &Overwritten) -> String {
    match overwritten.pixel {
        Some([x, y, z]) => {
            format!("the nearest overwritten pixel is ({x}, {y}, {z}), past the edge of its image")
        }
        None => format!("the first overwritten byte {}", relation(buffer)),
    }
}

/// ``argument 1 `out` ``.
fn argument_name(argument: &model::KernelArgument) -> String {
    match &argument.name {
        Some(name) => format!("argument {} `{name}`", argument.index),
        None => format!("argument {}", argument.index),
    }
}

/// `12 bytes were overwritten, up to 12 bytes past the end, with 00 00 80 3f`.
fn extent(relation: Relation, overwritten: &Overwritten) -> String {
    let mut text = count(overwritten.bytes, "byte");
    text.push_str(if overwritten.bytes == 1 {
        " was overwritten"
    } else {
        " were overwritten"
    });
    let reach = match relation {
        Relation::Before(_) => (overwritten.farthest, "before the start"),
        // The byte at distance 11 is the twelfth past the end.
        _ => (overwritten.farthest + 1, "past the end"),
    };
    if overwritten.bytes > 1 && overwritten.pixel.is_none() {
        let _ = write!(text, ", up to {} {}", count(reach.0, "byte"), reach.1);
    }
    let found: Vec<String> = overwritten
        .found
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let more = if overwritten.bytes > found.len() as u64 {
        " …"
    } else {
        ""
    };
    let _ = write!(text, ", with {}{more}", found.join(" "));
    text
}

/// Where the address lies, and the history of what it has to do with.
fn memory(lines: &mut Lines, finding: &Finding, origin: &str) {
    let address = finding.address;
    match (&finding.intended, &finding.nearest) {
        (Some(intended), nearest) => {
            let starts = relation(intended);
            // Where it ends, if its size does not show that.
            let goes_on = match (&finding.subject, intended.relation) {
                (
                    Subject::Access(DeviceAccess {
                        alignment: Some(bytes),
                        ..
                    }),
                    _,
                ) => {
                    format!(", and is not a multiple of {bytes}")
                }
                (Subject::Access(access), Relation::Inside(_))
                    if access.width_at_run_time && !intended.freed =>
                {
                    ", and the access goes on past the end".into()
                }
                _ => String::new(),
            };
            lines.push(1, &format!("address {address} {starts}{goes_on}"));
            lines.push(1, &format!("{origin} {}", describe(intended)));
            history(lines, intended);
            if let Some(nearest) = nearest {
                lines.push(1, &format!("{} {}", hits(nearest), describe(nearest)));
                history(lines, nearest);
            }
        }
        // An allocation that the pointer does not belong to.
        (None, Some(nearest)) if matches!(nearest.relation, Relation::Inside(_)) => {
            let by = match finding.subject {
                Subject::Access(_) => "from a pointer that lies outside all allocations",
                _ => "which belongs to another allocation",
            };
            lines.push(1, &format!("address {address} is reached {by}"));
            lines.push(1, &format!("{} {}", hits(nearest), describe(nearest)));
            history(lines, nearest);
        }
        (None, Some(nearest)) => {
            lines.push(1, &format!("address {address} {}", relation(nearest)));
            let nearest_is = "that is the nearest allocation,";
            lines.push(1, &format!("{nearest_is} {}", describe(nearest)));
            history(lines, nearest);
        }
        (None, None) => {
            let what = if address.0 < 4096 {
                "a null pointer"
            } else {
                "near no allocation"
            };
            lines.push(1, &format!("address {address} is {what}"));
        }
    }
}

/// What a finding is about besides its headline, in at most two lines.
pub(crate) fn context(finding: &Finding) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(call) = finding.call().filter(|call| !call.detail.is_empty()) {
        lines.push(call.detail.clone());
    }
    if let Some(failure) = finding.failure() {
        lines.extend(
            failure
                .stopped
                .as_ref()
                .map(|stopped| stopped.detail.clone()),
        );
        let names: Vec<String> = failure
            .kernels
            .iter()
            .map(|kernel| demangle(&kernel.kernel))
            .collect();
        lines.push(match names.as_slice() {
            [] => "no kernel is known to have been running".into(),
            [only] => format!("in kernel {only}"),
            several => format!("in one of the kernels {}", several.join(", ")),
        });
    }
    if let Some(intended) = &finding.intended {
        let address = match &finding.subject {
            Subject::Leak => describe(intended),
            Subject::Kernel(run) => {
                let way = run.argument.as_ref().map_or(String::new(), |argument| {
                    format!(" through {}", argument_name(argument))
                });
                format!(
                    "kernel {}{way}: {} ({})",
                    demangle(&run.kernel),
                    nearest_overwritten(intended, &run.overwritten),
                    describe(intended)
                )
            }
            _ => format!(
                "the address {} ({})",
                relation(intended),
                describe(intended)
            ),
        };
        lines.push(address);
    }
    lines
}

/// The first line: `Invalid __global__ write of size 4 bytes [rule]`.
pub(crate) fn headline(finding: &Finding) -> String {
    let text = match &finding.subject {
        Subject::Access(access) => device_headline(finding.rule, access),
        Subject::Kernel(run) if run.watched.is_some() => {
            "Write outside a buffer, seen while kernels ran".into()
        }
        Subject::Kernel(_) => "Write outside a buffer, seen after the kernel".into(),
        Subject::Call(call) => call_headline(finding.rule, call),
        Subject::Failure(failure) => format!(
            "Kernel failed: {} ({}, error {})",
            failure.meaning, failure.error, failure.code
        ),
        Subject::Leak => finding.intended.as_ref().map_or("Leak".into(), |leaked| {
            format!("Leak of {}", count(leaked.allocation.extent.size, "byte"))
        }),
    };
    format!("{text} [{}]", finding.rule.id())
}

fn device_headline(rule: Rule, access: &DeviceAccess) -> String {
    match rule {
        Rule::DoubleFree => return "Double free by a kernel".into(),
        Rule::InvalidFree => return "Invalid free by a kernel".into(),
        _ => {}
    }
    let kind = match access.kind {
        AccessKind::Read => "read",
        AccessKind::Write => "write",
        AccessKind::Atomic => "atomic",
    };
    let space = match access.space {
        Space::Generic | Space::Global => "__global__",
        Space::Shared | Space::SharedCluster => "__shared__",
        Space::Local => "__local__",
        Space::Const => "__constant__",
        Space::Param => "parameter",
    };
    let wrong = match rule {
        Rule::MisalignedAccess => "Misaligned",
        _ => "Invalid",
    };
    if access.width_at_run_time {
        return format!("{wrong} {space} {kind} of run-time size");
    }
    let size = count(access.width.into(), "byte");
    format!("{wrong} {space} {kind} of size {size}")
}

fn call_headline(rule: Rule, call: &HostCall) -> String {
    let what = match rule {
        Rule::DoubleFree => "Double free",
        Rule::InvalidFree => "Invalid free",
        Rule::CopyOutOfBoundsRead => "Invalid read",
        Rule::CopyOutOfBoundsWrite => "Invalid write",
        Rule::UseAfterFree => "Use of freed memory",
        Rule::UseBeforeAllocation => "Use of memory that is not allocated yet",
        Rule::StreamOrderRace => "Use of memory that races with its free",
        Rule::CanaryOverwritten => "Write outside a buffer",
        _ => "Invalid use of memory",
    };
    let size = call.width.map_or(String::new(), |width| {
        format!(" of size {}", count(width, "byte"))
    });
    format!("{what}{size} by {}", call.function)
}

/// `at scale(float*, int) in demo.cu:39`.
fn place(access: &DeviceAccess) -> String {
    let function = if access.function.is_empty() {
        &access.kernel
    } else {
        &access.function
    };
    let mut text = format!("at {}", demangle(function));
    if let Some(source) = &access.source {
        text = chain(&text, source);
    }
    text
}

/// `… in demo.cu:39 inlined in demo.cu:52`.
fn chain(before: &str, source: &SourceLocation) -> String {
    let mut text = before.to_owned();
    for (index, source) in source.chain().enumerate() {
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
    let noun = noun(near.allocation.kind);
    match near.relation {
        Relation::After(0) => format!("is the first byte past the end of its {noun}"),
        Relation::After(bytes) => format!("is {} past the end of its {noun}", count(bytes, "byte")),
        Relation::Before(bytes) => {
            format!("is {} before the start of its {noun}", count(bytes, "byte"))
        }
        Relation::Inside(bytes) if near.freed => {
            let at = match bytes {
                0 => "the start of".into(),
                bytes => format!("{} into", count(bytes, "byte")),
            };
            match near.allocation.kind {
                AllocationKind::Local => format!("is {at} an object whose scope has ended"),
                _ => format!("is {at} an allocation that was freed"),
            }
        }
        Relation::Inside(0) => format!("is the start of its {noun}"),
        Relation::Inside(bytes) => format!(
            "is {} into its {noun}, {} before its end",
            count(bytes, "byte"),
            count(size.saturating_sub(bytes), "byte")
        ),
    }
}

/// What an address is checked against, in a word.
fn noun(kind: AllocationKind) -> &'static str {
    match kind {
        AllocationKind::Device
        | AllocationKind::Managed
        | AllocationKind::Host
        | AllocationKind::HostRegistered
        | AllocationKind::Pool
        | AllocationKind::Mapped
        | AllocationKind::Foreign
        | AllocationKind::DeviceHeap => "allocation",
        AllocationKind::Variable | AllocationKind::Constant => "variable",
        AllocationKind::Shared | AllocationKind::Array => "array",
        AllocationKind::DynamicShared => "shared memory",
        AllocationKind::Local => "object",
        AllocationKind::Parameter => "parameter",
        AllocationKind::Region => "region",
        AllocationKind::ClBuffer => "buffer",
        AllocationKind::ClSubBuffer => "sub-buffer",
        AllocationKind::ClImage => "image",
        AllocationKind::ClSvm => "allocation",
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
        AllocationKind::Array => "CUDA array",
        AllocationKind::Variable => "device variable",
        AllocationKind::Foreign => "allocation made outside the hooked calls",
        AllocationKind::DeviceHeap => "device heap allocation",
        AllocationKind::Shared => "shared array",
        AllocationKind::DynamicShared => "dynamic shared memory",
        AllocationKind::Local => "local object",
        AllocationKind::Constant => "constant variable",
        AllocationKind::Parameter => "kernel parameter",
        AllocationKind::Region => "region",
        AllocationKind::ClBuffer => "OpenCL buffer",
        AllocationKind::ClSubBuffer => "OpenCL sub-buffer",
        AllocationKind::ClImage => "OpenCL image",
        AllocationKind::ClSvm => "SVM allocation",
    };
    let state = match allocation.kind {
        AllocationKind::Local => "",
        _ if near.freed => "freed ",
        _ => "",
    };
    let name = match &allocation.name {
        Some(name) => format!(" `{}`", demangle(name)),
        None if allocation.serial != 0 => format!(" #{}", allocation.serial),
        None => String::new(),
    };
    let size = count(allocation.extent.size, "byte");
    let base = allocation.extent.base;
    match allocation.kind {
        // What stands for its address is a handle.
        AllocationKind::ClBuffer | AllocationKind::ClSubBuffer | AllocationKind::ClImage => {
            format!("the {state}{kind}{name} of {size} (cl_mem {base})")
        }
        AllocationKind::Array => format!("the {state}{kind}{name} of {size} (handle {base})"),
        _ => format!("the {state}{kind}{name} of {size} at {base}"),
    }
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
pub fn count(number: u64, unit: &str) -> String {
    let plural = match number {
        1 => "",
        _ if unit.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {unit}{plural}", thousands(number))
}

pub(crate) fn thousands(number: u64) -> String {
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
        // Names are input of the program: a newline in one must not look like a
        // line of the report.
        let line = line.replace(['\n', '\r'], " ");
        let _ = writeln!(self.text, "{PREFIX}{:indent$}{line}", "");
    }
}

#[cfg(test)]
pub(crate) mod tests;
