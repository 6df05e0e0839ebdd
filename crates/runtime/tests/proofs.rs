//! Launches that are proved in bounds are: kernels made at random, of loops,
//! guards, selections and index arithmetic of all kinds, run checked although
//! some launches are proved; no check of those may fail.

use driver::Driver;
use emulate::device::Launch;
use model::layout::{CHECKED_PREFIX, RESIDUAL_PREFIX};
use model::{AllocationKind, DeviceAddress, Extent, Prove, Settings};
use random::Random;
use runtime::{
    EntryPlan, KernelCopies, LaunchDecision, LaunchRequest, LaunchShape, ModulePart, Prepared,
    Resolved, Runtime, Where,
};
use std::fmt::Write;
use std::sync::Arc;

#[path = "support/random.rs"]
mod random;
#[path = "support/shapes.rs"]
mod shapes;
mod support;

/// Writes one kernel.
struct Kernel {
    random: Random,
    body: String,
    registers: u32,
    wide: u32,
    predicates: u32,
    labels: u32,
    /// Registers that hold something here.
    values: Vec<u32>,
    /// Registers that are written again and again.
    variables: [u32; 2],
    accesses: u32,
    kernel: u32,
}

const RELATIONS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];

impl Kernel {
    fn text(seed: u64, number: u32) -> String {
        let mut kernel = Kernel {
            random: Random(seed | 1),
            body: String::new(),
            registers: 0,
            wide: 2,
            predicates: 0,
            labels: 0,
            values: Vec::new(),
            variables: [0, 0],
            accesses: 0,
            kernel: number,
        };
        kernel.prologue();
        kernel.block(0);
        kernel.access();
        let Kernel {
            body,
            registers,
            wide,
            predicates,
            ..
        } = kernel;
        format!(
            ".visible .entry k{number}(.param .u64 k{number}_p, .param .u32 k{number}_n, .param .s32 k{number}_m)\n{{\n\
             .shared .align 4 .b8 k{number}_s[400];\n.reg .pred %p<{}>;\n.reg .b32 %r<{}>;\n.reg .b64 %rd<{}>;\n{body}$end{number}:\nret;\n}}\n",
            predicates + 1,
            registers + 1,
            wide + 1,
        )
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "\t{text}");
    }

    fn register(&mut self) -> u32 {
        self.registers += 1;
        self.registers - 1
    }

    fn predicate(&mut self) -> u32 {
        self.predicates += 1;
        self.predicates - 1
    }

    fn prologue(&mut self) {
        let k = self.kernel;
        self.line(format_args!("ld.param.u64 %rd0, [k{k}_p];"));
        self.line(format_args!("cvta.to.global.u64 %rd1, %rd0;"));
        let [n, m, tid, ctaid, ntid, i] = std::array::from_fn(|_| self.register());
        self.line(format_args!("ld.param.u32 %r{n}, [k{k}_n];"));
        self.line(format_args!("ld.param.u32 %r{m}, [k{k}_m];"));
        self.line(format_args!("mov.u32 %r{tid}, %tid.x;"));
        self.line(format_args!("mov.u32 %r{ctaid}, %ctaid.x;"));
        self.line(format_args!("mov.u32 %r{ntid}, %ntid.x;"));
        self.line(format_args!(
            "mad.lo.s32 %r{i}, %r{ctaid}, %r{ntid}, %r{tid};"
        ));
        let [a, b] = std::array::from_fn(|_| self.register());
        self.line(format_args!("mov.u32 %r{a}, %r{i};"));
        self.line(format_args!("mov.u32 %r{b}, 0;"));
        self.variables = [a, b];
        self.values = vec![n, m, tid, i, i, a, b];
        if self.random.below(2) == 0 {
            let p = self.predicate();
            let relation = self.random.of(&["ge.s32", "ge.u32", "gt.s32", "hs.u32"]);
            self.line(format_args!("setp.{relation} %p{p}, %r{i}, %r{n};"));
            self.line(format_args!("@%p{p} bra $end{k};"));
        }
    }

    fn value(&mut self) -> u32 {
        let values = std::mem::take(&mut self.values);
        // The latest are the likeliest.
        let last = values.len() as u64 - 1;
        let back = self.random.below(last + 1).min(self.random.below(last + 1));
        let value = values[(last - back) as usize];
        self.values = values;
        value
    }

    fn operand(&mut self) -> String {
        match self.random.below(3) {
            0 => {
                let constant = self
                    .random
                    .of(&[0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 100, -1, -2, -8]);
                constant.to_string()
            }
            _ => format!("%r{}", self.value()),
        }
    }

    fn comparison(&mut self) -> u32 {
        let a = self.value();
        let b = self.operand();
        let p = self.predicate();
        let relation = self.random.of(&RELATIONS);
        let kind = self.random.of(&["s32", "u32", "s32"]);
        self.line(format_args!("setp.{relation}.{kind} %p{p}, %r{a}, {b};"));
        if self.random.below(4) != 0 {
            return p;
        }
        let (q, both) = (self.comparison(), self.predicate());
        let operation = self.random.of(&["and", "or"]);
        self.line(format_args!("{operation}.pred %p{both}, %p{p}, %p{q};"));
        both
    }

    fn arithmetic(&mut self) {
        let a = self.value();
        let b = self.operand();
        let to = match self.random.below(4) {
            0 => {
                let variables = self.variables;
                self.random.of(&variables)
            }
            _ => self.register(),
        };
        let shift = self.random.of(&[1, 2, 4, 5, 28, 30]);
        let mask = self.random.of(&[1, 3, 7, 15, 255, -2, -4, -16]);
        let by = self.random.of(&[1, 2, 3, 7, 16, 100]);
        let sign = self.random.of(&["s32", "u32"]);
        match self.random.below(17) {
            0..=2 => self.line(format_args!("add.s32 %r{to}, %r{a}, {b};")),
            3..=4 => self.line(format_args!("sub.s32 %r{to}, %r{a}, {b};")),
            5 => self.line(format_args!("mul.lo.s32 %r{to}, %r{a}, {b};")),
            6 => self.line(format_args!("mad.lo.s32 %r{to}, %r{a}, {by}, {b};")),
            7 => self.line(format_args!("shl.b32 %r{to}, %r{a}, {shift};")),
            8 => self.line(format_args!("shr.{sign} %r{to}, %r{a}, {shift};")),
            9 => self.line(format_args!("and.b32 %r{to}, %r{a}, {mask};")),
            10 => self.line(format_args!("or.b32 %r{to}, %r{a}, {b};")),
            11 => self.line(format_args!("xor.b32 %r{to}, %r{a}, {b};")),
            12 => self.line(format_args!("min.{sign} %r{to}, %r{a}, {b};")),
            13 => self.line(format_args!("max.{sign} %r{to}, %r{a}, {b};")),
            14 => {
                let operation = self.random.of(&["div", "rem"]);
                self.line(format_args!("{operation}.{sign} %r{to}, %r{a}, {by};"));
            }
            15 => {
                let p = self.comparison();
                self.line(format_args!("selp.b32 %r{to}, %r{a}, {b}, %p{p};"));
            }
            _ => {
                let p = self.comparison();
                let not = self.random.of(&["", "!"]);
                // The old value must be one.
                let to = self.variables[0];
                self.line(format_args!("@{not}%p{p} mov.u32 %r{to}, {b};"));
                return;
            }
        }
        self.values.push(to);
    }

    fn access(&mut self) {
        let a = self.value();
        let scale = self.random.of(&[1, 4, 4, 4, 8]);
        let [offset, address] = [self.wide, self.wide + 1];
        self.wide += 2;
        match self.random.below(6) {
            0..=2 => self.line(format_args!("mul.wide.s32 %rd{offset}, %r{a}, {scale};")),
            3..=4 => self.line(format_args!("mul.wide.u32 %rd{offset}, %r{a}, {scale};")),
            _ => {
                let shifted = self.register();
                self.line(format_args!("shl.b32 %r{shifted}, %r{a}, 2;"));
                let sign = self.random.of(&["s32", "u32"]);
                let to = if sign == "s32" { "s64" } else { "u64" };
                self.line(format_args!("cvt.{to}.{sign} %rd{offset}, %r{shifted};"));
            }
        }
        self.line(format_args!("add.s64 %rd{address}, %rd1, %rd{offset};"));
        let constant = self.random.of(&[0, 0, 0, 4, -4]);
        let to = self.register();
        match self.random.below(5) {
            0 if scale == 1 => {
                self.line(format_args!(
                    "ld.global.u8 %r{to}, [%rd{address}+{constant}];"
                ));
                self.values.push(to);
            }
            1 => {
                let zero = self.register();
                self.line(format_args!("mov.u32 %r{zero}, 0;"));
                self.line(format_args!(
                    "st.global.u8 [%rd{address}+{constant}], %r{zero};"
                ));
            }
            _ => {
                self.line(format_args!(
                    "ld.global.u8 %r{to}, [%rd{address}+{constant}];"
                ));
                self.values.push(to);
            }
        }
        self.accesses += 1;
    }

    /// What a block computes is known in it only.
    fn scoped(&mut self, depth: u32) {
        let values = self.values.clone();
        self.block(depth);
        self.values = values;
    }

    fn guarded(&mut self, depth: u32) {
        let p = self.comparison();
        let label = self.label();
        let not = self.random.of(&["", "!"]);
        let k = self.kernel;
        self.line(format_args!("@{not}%p{p} bra $skip{k}_{label};"));
        self.scoped(depth + 1);
        if self.random.below(3) == 0 {
            let other = self.label();
            self.line(format_args!("bra $skip{k}_{other};"));
            self.line(format_args!("$skip{k}_{label}:"));
            self.scoped(depth + 1);
            self.line(format_args!("$skip{k}_{other}:"));
        } else {
            self.line(format_args!("$skip{k}_{label}:"));
        }
    }

    fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    fn repeated(&mut self, depth: u32) {
        let [counter, fuel] = std::array::from_fn(|_| self.register());
        let start = self.operand();
        let (k, label) = (self.kernel, self.label());
        self.line(format_args!("mov.u32 %r{counter}, {start};"));
        self.line(format_args!("mov.u32 %r{fuel}, 0;"));
        let walker = self.walker(counter);
        self.line(format_args!("$loop{k}_{label}:"));
        let is_tested_first = self.random.below(2) == 0;
        let relation = self
            .random
            .of(&["lt.s32", "ne.s32", "lt.u32", "le.s32", "gt.s32", "ge.s32"]);
        let limit = self.operand();
        if is_tested_first {
            let p = self.predicate();
            self.line(format_args!("setp.{relation} %p{p}, %r{counter}, {limit};"));
            self.line(format_args!("@!%p{p} bra $out{k}_{label};"));
        }
        let values = self.values.clone();
        self.values.extend([counter, counter]);
        if let Some(walker) = &walker {
            self.walks(walker);
        }
        self.block(depth + 1);
        self.values = values;
        let step = self
            .random
            .of(&["1", "1", "4", "-1", "-4", "%r2", "3", "16"]);
        if let Some(walker) = &walker {
            self.walk(walker, step);
        }
        if self.random.below(5) == 0 {
            self.carried(counter);
        } else if self.random.below(5) == 0 {
            let p = self.comparison();
            self.line(format_args!(
                "@%p{p} add.s32 %r{counter}, %r{counter}, {step};"
            ));
        } else {
            self.line(format_args!("add.s32 %r{counter}, %r{counter}, {step};"));
        }
        // No kernel may run for long. (An exit through memory, so that the
        // count of rounds is not seen.)
        let [p, q] = [self.predicate(), self.predicate()];
        self.line(format_args!("add.s32 %r{fuel}, %r{fuel}, 1;"));
        let hidden = self.register();
        self.line(format_args!("cvt.rn.f32.u32 %f0, %r{fuel};"));
        self.line(format_args!("setp.gt.f32 %p{q}, %f0, 0f42480000;"));
        let _ = hidden;
        self.line(format_args!("@%p{q} bra $out{k}_{label};"));
        if is_tested_first {
            self.line(format_args!("bra $loop{k}_{label};"));
        } else {
            self.line(format_args!("setp.{relation} %p{p}, %r{counter}, {limit};"));
            self.line(format_args!("@%p{p} bra $loop{k}_{label};"));
        }
        self.line(format_args!("$out{k}_{label}:"));
        self.values.push(counter);
    }

    fn block(&mut self, depth: u32) {
        let statements = 2 + self.random.below(4);
        for _ in 0..statements {
            match self.random.below(10) {
                0..=2 => self.arithmetic(),
                3..=4 => self.shape(),
                5..=6 => self.access(),
                7 if depth < 3 => self.repeated(depth),
                8..=9 if depth < 3 => self.guarded(depth),
                _ => self.arithmetic(),
            }
            if self.accesses > 5 {
                return;
            }
        }
    }
}

/// Declarations and an access whose index is loaded from the buffer.
fn by_data(kernel: u32) -> String {
    format!(
        ".reg .b32 %data<2>;\n.reg .b64 %to<3>;\n\tld.param.u64 %to0, [k{kernel}_p];\n\
         \tld.global.u32 %data0, [%to0];\n\tmul.wide.u32 %to1, %data0, 4;\n\
         \tadd.s64 %to2, %to0, %to1;\n\tld.global.u32 %data1, [%to2];\n"
    )
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "to be split: it prepares, launches and compares"
)]
fn no_check_of_a_proved_launch_fails() {
    const KERNELS: u32 = 1200;
    let seed = support::seed(20_261_121);
    let mut random = Random(seed | 1);
    let mut text = String::from(".version 7.8\n.target sm_75\n.address_size 64\n");
    for number in 0..KERNELS {
        let kernel = Kernel::text(random.next(), number);
        let mut kernel = kernel.replace(".reg .pred", ".reg .f32 %f<1>;\n.reg .pred");
        // One of four also goes where its data say, which no launch is proved for.
        if number % 4 == 0 {
            kernel = kernel.replace("%f<1>;\n", &format!("%f<1>;\n{}", by_data(number)));
        }
        text.push_str(&kernel);
    }
    let device = support::device(2, 1);
    let session = tempfile::tempdir().unwrap();
    let log = session.path().join("log");
    let settings = Settings {
        log_file: Some(log.display().to_string()),
        session: Some(session.path().to_path_buf()),
        prove: Prove::Verify,
        ..Settings::default()
    };
    let runtime = Runtime::new(settings, device.clone() as Arc<dyn Driver>).unwrap();
    let Prepared::Instrumented { ptx, plan } = runtime.modules().prepare(&[ModulePart::Ptx(&text)])
    else {
        panic!("not instrumented");
    };
    let parts: Vec<&str> = ptx.iter().map(String::as_str).collect();
    let module = device.load_module(&parts).unwrap();
    runtime.modules().loaded(module, plan.clone());

    let size = 400;
    let kind = AllocationKind::Device;
    let base = device
        .allocate(runtime.allocations().padded_size(size), kind, 0)
        .unwrap()
        .0;
    let extent = Extent {
        base: DeviceAddress(base),
        size,
    };
    runtime.allocations().allocated(kind, extent);
    let contents: Vec<u8> = (0..size).map(|_| random.below(256) as u8).collect();
    Driver::write(&*device, DeviceAddress(base), &contents).unwrap();

    let (mut proved, mut partly, mut launches) = (0, 0, 0);
    for number in 0..KERNELS {
        let name = format!("k{number}");
        let entry = plan.entry(&name).unwrap();
        let Some(program) = entry.program() else {
            continue;
        };
        let original = device.function(module, &name).unwrap();
        let copy = |prefix: &str| device.function(module, &format!("{prefix}{name}")).ok();
        let copies = KernelCopies {
            checked: copy(CHECKED_PREFIX),
            residual: copy(RESIDUAL_PREFIX),
        };
        assert_eq!(copies.residual.is_some(), entry.residual.is_some());
        runtime.modules().resolved(Resolved {
            handle: original,
            in_library: false,
            module,
            name: &name,
            copies,
        });
        for _ in 0..6 {
            let n = random.of(&[
                0i32,
                1,
                2,
                3,
                7,
                50,
                97,
                99,
                100,
                101,
                399,
                400,
                -1,
                i32::MAX,
            ]);
            let m = random.of(&[0i32, 1, 2, 5, 16, 33, 100, -1, -7, i32::MIN, i32::MAX]);
            let blocks = random.of(&[1, 2, 5]);
            let threads = random.of(&[1, 20, 32]);
            let shape = LaunchShape {
                grid: [blocks, 1, 1],
                block: [threads, 1, 1],
                shared: 0,
            };
            // Sometimes from the middle of the buffer on.
            let pointer = base + random.of(&[0, 0, 0, 40]);
            let mut bytes = pointer.to_le_bytes().to_vec();
            bytes.extend(n.to_le_bytes());
            bytes.extend(m.to_le_bytes());
            let read = |offset: u32, size: u8| {
                let at = offset as usize;
                let mut bits = [0; 8];
                bits[..usize::from(size)].copy_from_slice(bytes.get(at..at + usize::from(size))?);
                Some(u64::from_le_bytes(bits))
            };
            let inputs: Vec<u64> = program
                .inputs()
                .iter()
                .map(|input| read(input.offset, input.bytes).unwrap())
                .collect();
            let is_proved = program.proves(&shape, &inputs, &|_| Some((base, size)));
            match &entry.proof {
                Ok(_) => proved += u32::from(is_proved),
                Err(_) => partly += u32::from(is_proved),
            }
            launches += 1;
            let of_plan = |_: &EntryPlan, offset, size| read(offset, size);
            let ticket = runtime.begin_launch(LaunchRequest {
                function: original,
                kernel: runtime.modules().kernel(original),
                shape: &shape,
                stream: None,
                read: &of_plan,
            });
            let decision = ticket.decision().clone();
            ticket.submitted(Where::Unknown);
            let LaunchDecision::Checked {
                function,
                launch_parameter,
                plan,
                ..
            } = decision
            else {
                panic!("verified launches are checked");
            };
            let mut parameters = bytes.clone();
            let slot = plan.launch_parameter.unwrap();
            parameters.resize(slot.offset as usize, 0);
            parameters.extend_from_slice(&launch_parameter);
            let launch = Launch {
                function,
                grid: shape.grid,
                block: shape.block,
                parameters,
                ..Launch::default()
            };
            device.launch(launch, 0).unwrap();
            device.synchronize().unwrap();
            runtime.synchronized();
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            if let Some(at) = said.find("was proved to be in bounds") {
                let start = text.find(&format!(".visible .entry {name}(")).unwrap();
                let end = start + text[start..].find("\n}\n").unwrap();
                panic!(
                    "{}\nn = {n}, m = {m}, {shape:?}, pointer + {}, seed {seed}\n{}",
                    said[said[..at].rfind('\n').map_or(0, |end| end + 1)..]
                        .lines()
                        .next()
                        .unwrap(),
                    pointer - base,
                    &text[start..end]
                );
            }
        }
    }
    // Else the test says little.
    assert!(proved > 100, "{proved} of {launches} launches were proved");
    assert!(
        partly > 100,
        "{partly} of {launches} were, for some accesses"
    );
    println!("{proved} of {launches} launches were proved, and {partly} for some accesses");
}
