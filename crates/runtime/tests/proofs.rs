//! Launches that are proved in bounds are: kernels made at random, which access all spaces
//! through loops, guards, selections and index arithmetic of all kinds, run checked although
//! some launches are proved, or some of their accesses; no check of those may fail. What
//! runs where proofs are believed, the program's own kernel or its residual copy, leaves the
//! same memory and the same findings as the checked copy.

use driver::Driver;
use emulate::Device;
use emulate::device::Launch;
use kernels::{Kernel, spaces};
use model::layout::{CHECKED_PREFIX, RESIDUAL_PREFIX};
use model::{AllocationKind, DeviceAddress, Extent, Prove, Settings};
use random::Random;
use runtime::{
    EntryPlan, KernelCopies, LaunchDecision, LaunchRequest, LaunchShape, ModulePart, ModulePlan,
    Prepared, Resolved, Runtime, Where,
};
use serde::{Deserialize, Serialize};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

#[path = "support/kernels.rs"]
mod kernels;
#[path = "support/random.rs"]
mod random;
mod support;

/// Names the file for what launches do, of a process that runs the kernels of one module.
const FILE: &str = "RINGFENCE_TEST_PROOFS";

/// Set in such a process where proofs are believed, not verified.
const BELIEVED: &str = "RINGFENCE_TEST_BELIEVED";

/// The variable that sets how many kernels are made.
const KERNELS: &str = "RINGFENCE_TEST_KERNELS";

/// Launches of a kernel of one thread, which come first, and of several.
const LAUNCHES: [u32; 2] = [3, 4];

/// Kernels of a module.
const OF_A_MODULE: u32 = 1200;

/// Bytes of the buffer.
const SIZE: u64 = 400;

/// Declarations and an access whose index is loaded from the buffer.
fn by_data(kernel: u32) -> String {
    format!(
        ".reg .b32 %data<2>;\n.reg .b64 %to<3>;\n\tld.param.u64 %to0, [k{kernel}_p];\n\
         \tld.global.u32 %data0, [%to0];\n\tmul.wide.u32 %to1, %data0, 4;\n\
         \tadd.s64 %to2, %to0, %to1;\n\tld.global.u32 %data1, [%to2];\n"
    )
}

/// The kernels of one module.
fn module(random: &mut Random, kernels: u32) -> String {
    let mut text = String::from(".version 7.8\n.target sm_75\n.address_size 64\n");
    text.push_str(&spaces::declarations());
    for number in 0..kernels {
        let mut kernel = Kernel::text(random.next(), number);
        // One of four also goes where its data say, which no launch is proved for.
        if number % 4 == 0 {
            kernel = kernel.replacen("%f<1>;\n", &format!("%f<1>;\n{}", by_data(number)), 1);
        }
        text.push_str(&kernel);
    }
    text
}

/// One launch.
#[derive(Clone, Debug)]
struct Trial {
    kernel: u32,
    n: i32,
    m: i32,
    shape: LaunchShape,
    /// Where in the buffer its pointer lies.
    offset: u64,
}

impl Trial {
    fn of(random: &mut Random, kernel: u32, is_single: bool) -> Trial {
        let n = random.of(&[0, 1, 2, 3, 7, 50, 97, 99, 100, 101, 399, 400, -1, i32::MAX]);
        let m = random.of(&[0, 1, 2, 5, 16, 33, 100, -1, -7, i32::MIN, i32::MAX]);
        let (blocks, threads) = match is_single {
            true => (1, 1),
            false => random.of(&[(1, 20), (1, 32), (2, 1), (2, 32), (5, 1), (5, 20)]),
        };
        Trial {
            kernel,
            n,
            m,
            shape: LaunchShape {
                grid: [blocks, 1, 1],
                block: [threads, 1, 1],
                shared: random.of(&[0, 128, 400, 1024]),
            },
            // Sometimes from the middle of the buffer on.
            offset: random.of(&[0, 0, 0, 40]),
        }
    }

    /// Whether the order of threads does not matter.
    fn is_single(&self) -> bool {
        self.shape.grid == [1; 3] && self.shape.block == [1; 3]
    }

    fn parameters(&self, base: u64) -> Vec<u8> {
        let mut bytes = (base + self.offset).to_le_bytes().to_vec();
        bytes.extend(self.n.to_le_bytes());
        bytes.extend(self.m.to_le_bytes());
        bytes.extend((0..spaces::PARAMETER).map(|byte| byte as u8 * 3));
        bytes
    }
}

/// What a launch of one thread did.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Left {
    memory: Vec<u8>,
    /// What was reported.
    found: String,
}

/// What the launches of one module did.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Ran {
    /// Of each launch of one thread.
    left: Vec<Left>,
    /// Proofs that checks contradict, and other errors of Ringfence.
    errors: Vec<String>,
    launches: u32,
    /// Launches that are proved in bounds.
    proved: u32,
    /// Launches of which only some accesses are.
    partly: u32,
    /// Launches of residual copies.
    residual: u32,
}

/// A device with the kernels of a module, and what is found there.
struct Side {
    device: Arc<Device>,
    runtime: Arc<Runtime>,
    module: u64,
    plan: Arc<ModulePlan>,
    base: u64,
    log: PathBuf,
    read: u64,
    ran: Ran,
    _session: tempfile::TempDir,
}

impl Side {
    fn new(text: &str, prove: Prove) -> Side {
        let device = support::device(1, 1);
        let session = tempfile::tempdir().unwrap();
        let log = session.path().join("log");
        let settings = Settings {
            log_file: Some(log.display().to_string()),
            session: Some(session.path().to_path_buf()),
            print_limit: u32::MAX,
            prove,
            ..Settings::default()
        };
        let runtime = Runtime::new(settings, device.clone() as Arc<dyn Driver>).unwrap();
        let Prepared::Instrumented { ptx, plan } =
            runtime.modules().prepare(&[ModulePart::Ptx(text)])
        else {
            panic!(
                "not instrumented: {}",
                std::fs::read_to_string(&log).unwrap_or_default()
            );
        };
        let parts: Vec<&str> = ptx.iter().map(String::as_str).collect();
        let module = device.load_module(&parts).unwrap();
        runtime.modules().loaded(module, plan.clone());
        let kind = AllocationKind::Device;
        let padded = runtime.allocations().padded_size(SIZE);
        let base = device.allocate(padded, kind, 0).unwrap().0;
        let extent = Extent {
            base: DeviceAddress(base),
            size: SIZE,
        };
        runtime.allocations().allocated(kind, extent);
        Side {
            device,
            runtime,
            module,
            plan,
            base,
            log,
            read: 0,
            ran: Ran::default(),
            _session: session,
        }
    }

    /// The handle of a kernel; its copies are those of the plan.
    fn resolve(&self, number: u32) -> u64 {
        let name = format!("k{number}");
        let original = self.device.function(self.module, &name).unwrap();
        let copy = |prefix: &str| {
            let name = format!("{prefix}{name}");
            self.device.function(self.module, &name).ok()
        };
        let copies = KernelCopies {
            checked: copy(CHECKED_PREFIX),
            residual: copy(RESIDUAL_PREFIX),
        };
        let entry = self.plan.entry(&name).unwrap();
        assert_eq!(copies.residual.is_some(), entry.residual.is_some());
        self.runtime.modules().resolved(Resolved {
            handle: original,
            in_library: false,
            module: self.module,
            name: &name,
            copies,
        });
        original
    }

    /// Counts what the programs of a kernel say of a launch.
    fn count(&mut self, trial: &Trial, parameters: &[u8]) {
        let entry = self.plan.entry(&format!("k{}", trial.kernel)).unwrap();
        let proves = |program: &instrument::Program| {
            let inputs = program.inputs().iter();
            let inputs: Vec<u64> = inputs
                .map(|input| read(parameters, input.offset, input.bytes).unwrap())
                .collect();
            let bounds = |_| Some((self.base, SIZE));
            let found = program.proves_in_parts(&trial.shape, &single(&inputs), &bounds);
            found.is_proved
        };
        let is_proved = entry.proof.as_ref().is_ok_and(proves);
        let of_part = entry.residual.as_ref().map(|residual| &residual.proof);
        let is_partly = !is_proved && of_part.is_some_and(proves);
        self.ran.launches += 1;
        self.ran.proved += u32::from(is_proved);
        self.ran.partly += u32::from(is_partly);
    }

    /// Launches a kernel as a program does.
    fn launch(&mut self, original: u64, trial: &Trial, contents: &[u8]) {
        let place = DeviceAddress(self.base);
        Driver::write(&*self.device, place, contents).unwrap();
        let mut parameters = trial.parameters(self.base);
        self.count(trial, &parameters);
        let given = parameters.clone();
        let of_plan = |_: &EntryPlan, offset, size| read(&given, offset, size);
        let ticket = self.runtime.begin_launch(LaunchRequest {
            function: original,
            kernel: self.runtime.modules().kernel(original),
            shape: &trial.shape,
            stream: None,
            read: &of_plan,
        });
        let decision = ticket.decision().clone();
        ticket.submitted(Where::Unknown);
        let function = match decision {
            LaunchDecision::Checked {
                function,
                launch_parameter,
                plan,
                ..
            } => {
                if let Some(slot) = plan.launch_parameter {
                    parameters.resize(slot.offset as usize, 0);
                    parameters.extend_from_slice(&launch_parameter);
                }
                let name = format!("{RESIDUAL_PREFIX}k{}", trial.kernel);
                let residual = self.device.function(self.module, &name);
                self.ran.residual += u32::from(residual.is_ok_and(|own| own == function));
                function
            }
            LaunchDecision::Original | LaunchDecision::Proved | LaunchDecision::InPlace => original,
        };
        let launch = Launch {
            function,
            grid: trial.shape.grid,
            block: trial.shape.block,
            dynamic_shared: trial.shape.shared,
            parameters,
            ..Launch::default()
        };
        self.device.launch(launch, 0).unwrap();
        self.device.synchronize().unwrap();
        self.runtime.synchronized();
        let said = self.said();
        if let Some(error) = said
            .lines()
            .find(|line| line.contains("error of Ringfence"))
        {
            self.ran.errors.push(format!("{trial:?}: {error}"));
        }
        if trial.is_single() {
            let mut memory = vec![0; SIZE as usize];
            Driver::read(&*self.device, place, &mut memory).unwrap();
            // (Stacks and addresses of the host are the process's own, as is the number of
            // the launch.)
            let is_said = |line: &&str| !line.contains('#') && !line.contains("0x");
            let lines = said.lines().filter(is_said);
            let found: Vec<&str> = lines
                .map(|line| line.split(", launch ").next().unwrap_or(line))
                .collect();
            self.ran.left.push(Left {
                memory,
                found: found.join("\n"),
            });
        }
    }

    /// What was reported since the last launch.
    fn said(&mut self) -> String {
        let mut said = String::new();
        if let Ok(mut file) = std::fs::File::open(&self.log) {
            file.seek(SeekFrom::Start(self.read)).unwrap();
            self.read += file.read_to_string(&mut said).unwrap() as u64;
        }
        said
    }
}

/// The value of a parameter.
fn read(parameters: &[u8], offset: u32, size: u8) -> Option<u64> {
    let (at, size) = (offset as usize, usize::from(size));
    let mut bits = [0; 8];
    bits[..size].copy_from_slice(parameters.get(at..at + size)?);
    Some(u64::from_le_bytes(bits))
}

/// The text of a module, and the launches of its kernels, those of one thread first.
fn made(seed: u64, kernels: u32) -> (String, Vec<Trial>, Vec<u8>) {
    let mut random = Random(seed | 1);
    let text = module(&mut random, kernels);
    let contents = (0..SIZE).map(|_| random.below(256) as u8).collect();
    let mut trials = Vec::new();
    for kernel in 0..kernels {
        let [single, several] = LAUNCHES;
        for launch in 0..single + several {
            trials.push(Trial::of(&mut random, kernel, launch < single));
        }
    }
    (text, trials, contents)
}

/// Runs the kernels of one module. Where proofs are believed, launches of several threads
/// say nothing, since no order of theirs is the other's.
fn run(seed: u64, kernels: u32, prove: Prove) -> Ran {
    let (text, trials, contents) = made(seed, kernels);
    let mut side = Side::new(&text, prove);
    let mut resolved = None;
    for trial in trials {
        if prove == Prove::On && !trial.is_single() {
            continue;
        }
        let original = match resolved {
            Some((kernel, original)) if kernel == trial.kernel => original,
            _ => side.resolve(trial.kernel),
        };
        resolved = Some((trial.kernel, original));
        side.launch(original, &trial, &contents);
    }
    side.ran
}

/// Starts a process for one side, as a process has one device whose memory checks know.
fn start(seed: u64, kernels: u32, prove: Prove, file: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "proofs_hold_where_they_are_believed"])
        .env(FILE, file)
        .env(support::SEED, seed.to_string())
        .env(KERNELS, kernels.to_string());
    if prove == Prove::On {
        command.env(BELIEVED, "");
    }
    command.spawn().unwrap()
}

/// The text of a kernel.
fn text_of(text: &str, kernel: u32) -> &str {
    let start = text.find(&format!(".visible .entry k{kernel}(")).unwrap();
    let end = start + text[start..].find("\n}\n").unwrap();
    &text[start..end]
}

/// Runs the kernels of one module on both sides, and compares.
fn compare(seed: u64, kernels: u32) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let sides = [Prove::Verify, Prove::On].map(|prove| {
        let file = folder.path().join(format!("{prove:?}.json"));
        (start(seed, kernels, prove, &file), file)
    });
    let [mut verified, believed] = sides.map(|(mut child, file)| {
        assert!(child.wait().unwrap().success(), "seed {seed}");
        serde_json::from_slice::<Ran>(&std::fs::read(file).unwrap()).unwrap()
    });
    let (text, trials, _) = made(seed, kernels);
    let errors = verified.errors.iter().chain(&believed.errors);
    if let Some(error) = errors.into_iter().next() {
        let kernel = trials
            .iter()
            .find(|trial| error.starts_with(&format!("{trial:?}: ")));
        let text = kernel.map(|trial| text_of(&text, trial.kernel));
        panic!("{}\nseed {seed}: {error}", text.unwrap_or_default());
    }
    let singles = trials.iter().filter(|trial| trial.is_single());
    assert_eq!(verified.left.len(), believed.left.len());
    for ((trial, checked), own) in singles.zip(&verified.left).zip(&believed.left) {
        assert!(
            checked == own,
            "{}\nseed {seed}: {trial:?}: memory is the same: {}\n--- where proofs are believed\n{}\n--- checked\n{}",
            text_of(&text, trial.kernel),
            checked.memory == own.memory,
            own.found,
            checked.found,
        );
    }
    verified.residual = believed.residual;
    verified
}

#[test]
fn proofs_hold_where_they_are_believed() {
    let seed = support::seed(20_261_121);
    let set = std::env::var(KERNELS).ok();
    let kernels: u32 = set.map_or(OF_A_MODULE, |kernels| kernels.parse().unwrap());
    if let Some(file) = std::env::var_os(FILE) {
        let prove = match std::env::var_os(BELIEVED) {
            Some(_) => Prove::On,
            None => Prove::Verify,
        };
        let ran = serde_json::to_vec(&run(seed, kernels, prove)).unwrap();
        std::fs::write(file, ran).unwrap();
        return;
    }
    let (mut random, mut of_module) = (Random(seed | 1), seed);
    let mut all = Ran::default();
    let mut left = kernels;
    while left > 0 {
        let some = left.min(OF_A_MODULE);
        left -= some;
        let ran = compare(of_module, some);
        of_module = random.next();
        all.launches += ran.launches;
        all.proved += ran.proved;
        all.partly += ran.partly;
        all.residual += ran.residual;
    }
    println!(
        "{kernels} kernels: {} of {} launches were proved, and {} for some accesses; {} residual copies ran",
        all.proved, all.launches, all.partly, all.residual
    );
    // Else the test says little.
    let least = kernels / 12;
    assert!(all.proved > least && all.partly > least && all.residual > least / 4);
}

/// Inputs that have one value each.
fn single(inputs: &[u64]) -> Vec<instrument::Values> {
    let inputs = inputs.iter();
    inputs.map(|bits| instrument::Values::only(*bits)).collect()
}
