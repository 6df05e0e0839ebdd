//! Writes findings and counts to the process's report.

use crate::findings::{CallError, Culprit, Damaged, Overwritten, Report};
use crate::objects::buffer::Buffer;
use crate::platform::ask::ask;
use crate::sys::*;
use heap::canary::Side;
use host::{Output, Stack, stacks};
use model::{
    Allocation, ApiErrors, Coverage, DeviceAddress, DeviceKind, Extent, Finding, HostCall,
    KernelArgument, KernelRun, NearestAllocation, Note, Relation, Rule, Settings, Subject,
    UncheckedReason,
};
use parking_lot::Mutex;
use report::Event;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Distinguishes this part's results from those for CUDA in the same process.
const PART: &str = "-opencl";

/// Coverage is written again and again, because a process may be killed, but
/// not more often than this.
const SAVE_EVERY: Duration = Duration::from_millis(200);

/// Reports findings, errors and coverage.
pub struct Reporter {
    settings: Settings,
    /// Made at the first context: many a process loads OpenCL without using
    /// it.
    output: OnceLock<Option<Output>>,
    coverage: Mutex<Coverage>,
    findings: Mutex<Findings>,
    saved: Mutex<Option<Instant>>,
}

/// Number and occurrences of each finding, by what identifies it.
type Findings = BTreeMap<Same, (u64, u64)>;

/// Findings that are one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Same {
    /// Kernel, argument, and side of the buffer.
    Kernel(String, Option<u32>, Side),
    /// Function and call stack.
    Call(&'static str, Stack),
}

impl Reporter {
    pub fn new(settings: &Settings) -> Reporter {
        Reporter {
            settings: settings.clone(),
            output: OnceLock::new(),
            coverage: Mutex::default(),
            findings: Mutex::default(),
            saved: Mutex::default(),
        }
    }

    /// Records that the program has a context with these devices. `at_exit` is
    /// called before the process ends.
    pub fn open(&self, devices: &[cl_device_id], at_exit: extern "C" fn()) {
        self.output.get_or_init(|| {
            let output = Output::open(&self.settings, PART);
            let output = output
                .inspect_err(|error| host::write_stderr(&format!("ringfence: error: {error}\n")))
                .ok()?;
            output.event(&start_event(devices));
            // SAFETY: a plain function of a library that is never unloaded.
            // Registered this late it runs before what the platform registered
            // when it started.
            unsafe { libc::atexit(at_exit) };
            Some(output)
        });
    }

    fn output(&self) -> Option<&Output> {
        self.output.get()?.as_ref()
    }

    /// Counts a finding; a new one is made and reported.
    fn found(&self, same: Same, make: impl FnOnce() -> Finding) {
        let id = {
            let mut findings = self.findings.lock();
            let next = findings.len() as u64 + 1;
            let (id, occurrences) = findings.entry(same).or_insert((next, 0));
            *occurrences += 1;
            (*occurrences == 1).then_some(*id)
        };
        let (Some(id), Some(output)) = (id, self.output()) else {
            return;
        };
        let is_shown = output.finding(id, &make());
        if is_shown && self.settings.halt_on_error {
            output.line("ringfence: the program is ended because of --halt-on-error\n");
            self.save(true);
            // SAFETY: ends the process.
            unsafe { libc::_exit(self.settings.error_exitcode.into()) };
        }
    }

    /// Writes the current counts; `last`: they are final.
    pub fn save(&self, last: bool) {
        let Some(output) = self.output() else { return };
        {
            let mut saved = self.saved.lock();
            if !last && saved.is_some_and(|saved| saved.elapsed() < SAVE_EVERY) {
                return;
            }
            *saved = Some(Instant::now());
        }
        let counts: Vec<(u64, u64)> = self.findings.lock().values().copied().collect();
        for (id, occurrences) in counts {
            if occurrences > 1 {
                output.event(&Event::Occurrences { id, occurrences });
            }
        }
        let coverage = self.coverage.lock().clone();
        output.coverage(&coverage, last);
        if last {
            output.count_hidden();
        }
    }

    /// Whether this process writes to the output, and not one that it was
    /// forked from.
    pub fn is_ours(&self) -> bool {
        self.output().is_some_and(Output::is_ours)
    }

    /// Without a command that collects results, this process prints the summary
    /// itself.
    pub fn summary(&self) {
        let Some(output) = self.output().filter(|output| !output.has_session()) else {
            return;
        };
        let counts: Vec<(u64, u64)> = self.findings.lock().values().copied().collect();
        let mut totals = report::Totals {
            coverage: self.coverage.lock().clone(),
            ..report::Totals::default()
        };
        output.count(&counts, &mut totals);
        output.line(&(report::summary(&totals) + "\n"));
    }
}

impl Report for Reporter {
    fn checked(&self, kernel: &str) {
        let mut coverage = self.coverage.lock();
        match coverage.kernels.get_mut(kernel) {
            Some(known) => known.checked += 1,
            None => {
                coverage
                    .kernels
                    .entry(kernel.to_owned())
                    .or_default()
                    .checked = 1
            }
        }
    }

    fn note(&self, note: Note) {
        *self.coverage.lock().notes.entry(note).or_default() += 1;
    }

    fn unchecked(&self, kernel: &str, reason: UncheckedReason) {
        let mut coverage = self.coverage.lock();
        let kernel = coverage.kernels.entry(kernel.to_owned()).or_default();
        *kernel.unchecked.entry(reason).or_default() += 1;
    }

    fn bare(&self, kernel: &str, arguments: &[String]) {
        if arguments.is_empty() {
            return;
        }
        let mut coverage = self.coverage.lock();
        let kernel = coverage.kernels.entry(kernel.to_owned()).or_default();
        for argument in arguments {
            kernel.unchecked_sites.insert(argument.clone(), 1);
        }
    }

    fn error(&self, message: &str) {
        if let Some(output) = self.output() {
            output.error(message, false);
        }
    }

    fn overwritten(&self, found: &Overwritten<'_>) {
        let side = match found.damage {
            Damaged::Bytes(damage) => damage.side,
            Damaged::Pixels(_) => Side::After,
        };
        let same = match found.culprit {
            Culprit::Kernel(launch) => {
                Same::Kernel(launch.kernel.name.clone(), found.argument, side)
            }
            Culprit::Host { action, stack } => Same::Call(action.function, stack.clone()),
        };
        let callers = self.settings.num_callers_host;
        self.found(same, || finding(found, callers));
    }

    fn call(&self, error: CallError) {
        let detail = match self.settings.api_errors {
            ApiErrors::Off => return,
            ApiErrors::Pass => error.detail,
            ApiErrors::Refuse => error.detail + ", refused",
        };
        let stack = stacks::capture(self.settings.num_callers_host);
        let callers = self.settings.num_callers_host;
        self.found(Same::Call(error.function, stack.clone()), || Finding {
            rule: error.access.rule(),
            address: DeviceAddress((error.buffer.handle as u64).wrapping_add(error.offset)),
            subject: Subject::Call(HostCall {
                function: error.function.into(),
                detail,
                width: Some(error.width),
                called_at: stacks::resolve(&stack, callers, None),
            }),
            intended: Some(NearestAllocation {
                allocation: allocation(&error.buffer),
                relation: match error.offset.checked_sub(error.buffer.size) {
                    Some(past) => Relation::After(past),
                    None => Relation::Inside(error.offset),
                },
                allocated_at: stacks::resolve(&error.buffer.allocated_at, callers, None),
                freed: false,
                freed_at: Vec::new(),
            }),
            nearest: None,
            occurrences: 1,
        });
    }
}

fn start_event(devices: &[cl_device_id]) -> Event {
    let first = devices.first().copied().unwrap_or(std::ptr::null_mut());
    let text = |name| ask!(text, clGetDeviceInfo(first, name));
    let kind: Option<u64> = ask!(one, clGetDeviceInfo(first, CL_DEVICE_TYPE));
    let program = std::env::current_exe().unwrap_or_default();
    Event::Start {
        pid: std::process::id(),
        program: program.display().to_string(),
        device: match kind {
            Some(kind) if kind & CL_DEVICE_TYPE_CPU != 0 => DeviceKind::Cpu,
            _ => DeviceKind::Gpu,
        },
        device_name: text(CL_DEVICE_NAME).unwrap_or_default(),
        driver_version: text(CL_DEVICE_VERSION)
            .and_then(|version| parse_version(&version))
            .unwrap_or(0),
    }
}

/// `OpenCL 3.0 …` as 3000, in the manner of CUDA's versions.
fn parse_version(text: &str) -> Option<u32> {
    let (major, rest) = text.strip_prefix("OpenCL ")?.split_once('.')?;
    let minor = rest.split(' ').next()?;
    Some(major.parse::<u32>().ok()? * 1000 + minor.parse::<u32>().ok()? * 10)
}

fn finding(found: &Overwritten<'_>, callers: u32) -> Finding {
    let buffer = found.buffer;
    let base = buffer.handle as u64;
    let (relation, overwritten) = match found.damage {
        Damaged::Bytes(damage) => (
            match damage.side {
                Side::After => Relation::After(damage.nearest),
                Side::Before => Relation::Before(damage.nearest),
            },
            model::Overwritten {
                bytes: damage.bytes,
                farthest: damage.farthest,
                found: damage.found.clone(),
                pixel: None,
            },
        ),
        Damaged::Pixels(damage) => (
            Relation::After(damage.nearest),
            model::Overwritten {
                bytes: damage.bytes,
                farthest: damage.farthest,
                found: damage.found.clone(),
                pixel: Some(damage.pixel),
            },
        ),
    };
    let address = match relation {
        Relation::Before(bytes) => base.wrapping_sub(bytes),
        Relation::After(bytes) | Relation::Inside(bytes) => {
            base.wrapping_add(buffer.size).wrapping_add(bytes)
        }
    };
    Finding {
        rule: Rule::CanaryOverwritten,
        address: DeviceAddress(address),
        subject: subject(found, overwritten, callers),
        intended: Some(NearestAllocation {
            allocation: allocation(buffer),
            relation,
            allocated_at: stacks::resolve(&buffer.allocated_at, callers, None),
            freed: false,
            freed_at: Vec::new(),
        }),
        nearest: None,
        occurrences: 1,
    }
}

fn subject(found: &Overwritten<'_>, overwritten: model::Overwritten, callers: u32) -> Subject {
    let launch = match found.culprit {
        Culprit::Kernel(launch) => launch,
        Culprit::Host { action, stack } => {
            return Subject::Call(HostCall {
                function: action.function.into(),
                detail: format!(
                    "{}: {} changed",
                    action.what,
                    report::count(overwritten.bytes, "byte")
                ),
                width: Some(overwritten.bytes),
                called_at: stacks::resolve(stack, callers, None),
            });
        }
    };
    let kernel = &launch.kernel;
    Subject::Kernel(KernelRun {
        kernel: kernel.name.clone(),
        argument: found.argument.map(|index| KernelArgument {
            index,
            name: kernel.names().get(index as usize).cloned().flatten(),
        }),
        others: Vec::new(),
        overwritten,
        launch: launch.number,
        watched: None,
        launched_at: stacks::resolve(&launch.stack, callers, None),
    })
}

fn allocation(buffer: &Buffer) -> Allocation {
    Allocation {
        extent: Extent {
            base: DeviceAddress(buffer.handle as u64),
            size: buffer.size,
        },
        kind: buffer.kind,
        serial: buffer.serial,
        name: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::HostAction;
    use crate::objects::access::Access;
    use crate::objects::buffer::Place;
    use crate::objects::buffer::testing::made;
    use heap::canary::Damage;
    use std::sync::Arc;

    fn damage(side: Side) -> Damaged {
        Damaged::Bytes(Damage {
            side,
            nearest: 4,
            farthest: 7,
            bytes: 2,
            found: vec![1, 2],
        })
    }

    fn culprit(function: &'static str) -> Culprit {
        let action = HostAction {
            function,
            what: "it was mapped",
        };
        Culprit::Host {
            action,
            stack: None,
        }
    }

    #[test]
    fn a_finding_says_where_beside_which_buffer() {
        let buffer = Buffer::of(made(0x1000, 64, Place::Bare("a test")));
        let of = |side| {
            let found = Overwritten {
                culprit: &culprit("f"),
                buffer: &buffer,
                argument: None,
                damage: &damage(side),
            };
            finding(&found, 8)
        };
        let after = of(Side::After);
        assert_eq!(after.rule, Rule::CanaryOverwritten);
        assert_eq!(after.address, DeviceAddress(0x1000 + 64 + 4));
        let intended = after.intended.unwrap();
        assert_eq!(intended.relation, Relation::After(4));
        assert_eq!(intended.allocation.extent.size, 64);
        let before = of(Side::Before);
        assert_eq!(before.address, DeviceAddress(0x1000 - 4));
        let Subject::Call(call) = before.subject else {
            panic!("{:?}", before.subject);
        };
        assert_eq!(call.detail, "it was mapped: 2 bytes changed");
    }

    #[test]
    fn the_same_finding_is_counted_and_another_is_not() {
        let reporter = Reporter::new(&Settings::default());
        let buffer = Buffer::of(made(0x1000, 64, Place::Bare("a test")));
        for function in ["f", "g", "f"] {
            reporter.overwritten(&Overwritten {
                culprit: &culprit(function),
                buffer: &buffer,
                argument: None,
                damage: &damage(Side::After),
            });
        }
        let counts: Vec<(u64, u64)> = reporter.findings.lock().values().copied().collect();
        assert_eq!(counts, [(1, 2), (2, 1)]);
    }

    #[test]
    fn calls_are_not_reported_where_they_are_not_judged() {
        let call = |api_errors| {
            let reporter = Reporter::new(&Settings {
                api_errors,
                ..Settings::default()
            });
            reporter.call(CallError {
                function: "f",
                access: Access::Write,
                detail: "write".into(),
                width: 4,
                offset: 64,
                buffer: Arc::new(Buffer::of(made(1, 64, Place::Bare("a test")))),
            });
            reporter.findings.into_inner().len()
        };
        assert_eq!(call(ApiErrors::Off), 0);
        assert_eq!(call(ApiErrors::Pass), 1);
    }

    #[test]
    fn coverage_counts_each_kernel() {
        let reporter = Reporter::new(&Settings::default());
        reporter.checked("a");
        reporter.checked("a");
        reporter.unchecked("b", UncheckedReason::Failed);
        reporter.bare("a", &["argument 0: why".into()]);
        reporter.bare("c", &[]);
        reporter.note(Note::SmallerCanaries);
        let coverage = reporter.coverage.lock();
        assert_eq!(coverage.kernels["a"].checked, 2);
        assert_eq!(coverage.kernels["a"].unchecked_sites.len(), 1);
        assert_eq!(coverage.kernels["b"].unchecked[&UncheckedReason::Failed], 1);
        assert!(!coverage.kernels.contains_key("c"));
        assert_eq!(coverage.notes[&Note::SmallerCanaries], 1);
    }

    #[test]
    fn versions_are_read_as_cuda_s_are() {
        assert_eq!(parse_version("OpenCL 3.0 CUDA 13.0"), Some(3000));
        assert_eq!(parse_version("OpenCL 1.2"), Some(1020));
        assert_eq!(parse_version("3.0"), None);
        assert_eq!(parse_version("OpenCL three"), None);
    }
}
