//! Loops that are checked before they begin do what they do where each pass is checked:
//! loops made at random, of all comparisons, steps and ways to compute an address, leave
//! the same memory and the same findings.

use driver::Driver;
use emulate::device::Launch;
use model::{AllocationKind, DeviceAddress, Extent, Prove, Settings};
use random::Random;
use runtime::{ModulePart, Prepared, Runtime};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

#[path = "support/random.rs"]
mod random;
mod support;

/// Names the file for what the kernels do where each pass is checked.
const FILE: &str = "RINGFENCE_TEST_IN_PLACE";

/// Bytes of the buffer.
const SIZE: u64 = 4096;

/// Threads of a launch: of kernels that write in their loops one, so that the order of
/// threads does not matter.
fn threads(number: u32) -> u32 {
    1 + 2 * (number % 2)
}

/// A kernel with one loop: `p`, its buffer; `n`, the bound; `m`, the start; `s`, a step.
fn kernel(random: &mut Random, number: u32) -> String {
    let mut body = String::new();
    let mut line = |text: String| {
        let _ = writeln!(body, "\t{text}");
    };
    let k = format!("k{number}");
    let is_wide = random.below(4) == 0;
    let (r, bits) = if is_wide { ("%rd", "64") } else { ("%r", "32") };
    for (place, name) in ["n", "m", "s"].into_iter().enumerate() {
        line(format!("ld.param.s32 %r{place}, [{k}_{name}];"));
        line(format!("cvt.s64.s32 %rd{}, %r{place};", place + 10));
    }
    line(format!("ld.param.u64 %rd0, [{k}_p];"));
    line("cvta.to.global.u64 %rd1, %rd0;".into());
    // The counter is register 5, or 15 of 64 bits; then 0 to 2, or 10 to 12, are parameters.
    let base = if is_wide { 10 } else { 0 };
    let counter = format!("{r}{}", base + 5);
    let start = random.of(&["0", "1", "m", "m", "tid"]);
    line("mov.u32 %r9, %tid.x;".into());
    line("cvt.u64.u32 %rd9, %r9;".into());
    match start {
        "m" => line(format!("mov.b{bits} {counter}, {r}{};", base + 1)),
        "tid" => line(format!("mov.b{bits} {counter}, {r}9;")),
        constant => line(format!("mov.b{bits} {counter}, {constant};")),
    }
    // Pointers that move, by a constant and by a register.
    let by = random.of(&[1, 4, 8, 12, -4, -1, 256]);
    line("mul.wide.s32 %rd20, %r1, 4;".into());
    line("add.s64 %rd21, %rd1, %rd20;".into());
    line("mov.u64 %rd22, %rd1;".into());
    line("mul.wide.s32 %rd23, %r2, 4;".into());
    line("add.s32 %r6, %r5, 7;".into());
    line("mov.u32 %r7, 0;".into());
    line("mov.u32 %r8, 0;".into());
    line(format!("$loop{number}:"));
    for _ in 0..3 + random.below(3) {
        access(random, &mut line, number, is_wide);
    }
    // No loop may run for long.
    line("add.u32 %r8, %r8, 1;".into());
    line("cvt.rn.f32.u32 %f0, %r8;".into());
    line("setp.gt.f32 %p1, %f0, 0f42C80000;".into());
    line(format!("@%p1 bra $out{number};"));
    if random.below(3) == 0 {
        access(random, &mut line, number, is_wide);
    }
    line(format!("add.s64 %rd21, %rd21, {by};"));
    line("add.s64 %rd22, %rd22, %rd23;".into());
    match random.below(4) {
        0 => line("add.s64 %rd22, %rd22, %rd23;".into()),
        1 => line("sub.s64 %rd22, %rd22, 16;".into()),
        _ => {}
    }
    line("add.s32 %r6, %r6, -3;".into());
    go_on(random, &mut line, number, is_wide);
    line(format!("$out{number}:"));
    line("mul.wide.u32 %rd50, %r9, 4;".into());
    line("add.s64 %rd51, %rd1, %rd50;".into());
    line(format!("st.global.u32 [%rd51+{}], %r7;", SIZE - 64));
    format!(
        ".visible .entry {k}(.param .u64 {k}_p, .param .s32 {k}_n, .param .s32 {k}_m, .param .s32 {k}_s)\n{{\n\
         .reg .pred %p<4>;\n.reg .f32 %f<1>;\n.reg .b32 %r<60>;\n.reg .b64 %rd<60>;\n{body}\tret;\n}}\n"
    )
}

/// The end of a loop: a step, a comparison and a branch.
fn go_on(random: &mut Random, line: &mut dyn FnMut(String), number: u32, is_wide: bool) {
    let (r, bits) = if is_wide { ("%rd", "64") } else { ("%r", "32") };
    let base = if is_wide { 10 } else { 0 };
    let (counter, bound) = (format!("{r}{}", base + 5), format!("{r}{base}"));
    let sign = random.of(&["s", "s", "u"]);
    let (relation, steps): (&str, &[&str]) = random.of(&[
        ("lt", &["1", "1", "2", "3", "4", "16", "s", "100000"][..]),
        ("lt", &["1", "4", "s"]),
        ("le", &["1", "5", "s"]),
        ("ne", &["1", "-1", "2", "-4", "8"]),
        ("ne", &["1", "-1"]),
        ("gt", &["-1", "-2", "-7", "-64"]),
        ("ge", &["-1", "-4"]),
    ]);
    let step = match random.of(steps) {
        "s" => format!("{r}{}", base + 2),
        step => step.to_owned(),
    };
    let kind = match relation {
        "ne" => format!("b{bits}").replace('b', random.of(&["b", "s"])),
        _ => format!("{sign}{bits}"),
    };
    line(format!("add.s{bits} {counter}, {counter}, {step};"));
    let mut compared = counter.clone();
    if random.below(4) == 0 {
        compared = format!("{r}{}", base + 6);
        let plus = random.of(&["3", "-1", "100"]);
        line(format!("add.s{bits} {compared}, {counter}, {plus};"));
    }
    let bound = match random.below(4) {
        0 => random.of(&["64", "100", "7", "0"]).to_owned(),
        _ => bound,
    };
    match random.below(4) {
        0 => {
            let opposite = match relation {
                "lt" => "ge",
                "le" => "gt",
                "ne" => "eq",
                "gt" => "le",
                _ => "lt",
            };
            line(format!("setp.{opposite}.{kind} %p0, {compared}, {bound};"));
            line(format!("@!%p0 bra $loop{number};"));
        }
        _ => {
            line(format!("setp.{relation}.{kind} %p0, {compared}, {bound};"));
            line(format!("@%p0 bra $loop{number};"));
        }
    }
}

/// An access of a loop.
fn access(random: &mut Random, line: &mut dyn FnMut(String), number: u32, is_wide: bool) {
    let counter = if is_wide { "%rd15" } else { "%r5" };
    let narrow = random.of(&["%r5", "%r5", "%r6"]);
    let narrow = if is_wide { "%r6" } else { narrow };
    let scale = random.of(&[1, 4, 4, 4, 8]);
    let address = match random.below(8) {
        0 => "%rd21",
        1 => "%rd22",
        2 if is_wide => {
            line(format!("shl.b64 %rd30, {counter}, 2;"));
            line("add.s64 %rd31, %rd1, %rd30;".into());
            "%rd31"
        }
        2 | 3 => {
            line(format!("mul.wide.s32 %rd30, {narrow}, {scale};"));
            line("add.s64 %rd31, %rd1, %rd30;".into());
            "%rd31"
        }
        4 => {
            line(format!("mul.wide.u32 %rd32, {narrow}, {scale};"));
            line("add.s64 %rd33, %rd32, %rd1;".into());
            "%rd33"
        }
        5 => {
            let by = random.of(&["%r1", "%r2", "3", "-2"]);
            line(format!("mad.lo.s32 %r30, {narrow}, {by}, %r9;"));
            line(format!("mul.wide.s32 %rd34, %r30, {scale};"));
            line("add.s64 %rd35, %rd1, %rd34;".into());
            "%rd35"
        }
        6 => {
            line(format!("sub.s32 %r31, 60, {narrow};"));
            line("shl.b32 %r32, %r31, 2;".into());
            let (to, from) = random.of(&[("s64", "s32"), ("u64", "u32")]);
            line(format!("cvt.{to}.{from} %rd36, %r32;"));
            line("add.s64 %rd37, %rd1, %rd36;".into());
            "%rd37"
        }
        _ => {
            line(format!("mul.wide.s32 %rd38, {narrow}, 4;"));
            line("add.s64 %rd39, %rd1, %rd38;".into());
            line("add.s64 %rd40, %rd39, %rd23;".into());
            "%rd40"
        }
    };
    let offset = random.of(&[0, 0, 0, 4, -4, 64]);
    let writes = if threads(number) == 1 { 0 } else { 2 };
    match writes + random.below(5 - writes) {
        0 => line(format!("st.global.u8 [{address}+{offset}], %r9;")),
        1 => line(format!("st.global.u32 [{address}+{offset}], %r5;")),
        2 => {
            line("setp.lt.s32 %p2, %r7, 1000;".into());
            line(format!("@%p2 ld.global.u8 %r40, [{address}+{offset}];"));
            line("@%p2 add.s32 %r7, %r7, %r40;".into());
        }
        3 => {
            let label = random.below(1 << 40);
            line("setp.lt.s32 %p2, %r7, 5000;".into());
            line(format!("@%p2 bra $skip{number}_{label};"));
            line(format!("ld.global.u8 %r41, [{address}+{offset}];"));
            line("xor.b32 %r7, %r7, %r41;".into());
            line(format!("$skip{number}_{label}:"));
        }
        _ => {
            line(format!("ld.global.u32 %r42, [{address}+{offset}];"));
            line("add.s32 %r7, %r7, %r42;".into());
        }
    }
}

/// A device with the kernels, and the runtime that checks them.
struct Side {
    device: Arc<emulate::device::Device>,
    runtime: Arc<Runtime>,
    module: u64,
    base: u64,
    log: PathBuf,
    read: usize,
    _session: tempfile::TempDir,
}

impl Side {
    fn new(text: &str, hoist: bool) -> (Side, usize) {
        let device = support::device(2, 1);
        let session = tempfile::tempdir().unwrap();
        let log = session.path().join("log");
        let settings = Settings {
            log_file: Some(log.display().to_string()),
            session: Some(session.path().to_path_buf()),
            prove: Prove::Off,
            print_limit: 1_000_000,
            hoist,
            ..Settings::default()
        };
        let runtime = Runtime::new(settings, device.clone() as Arc<dyn Driver>).unwrap();
        let Prepared::Instrumented { ptx, plan } =
            runtime.modules().prepare(&[ModulePart::Ptx(text)])
        else {
            panic!("not instrumented");
        };
        let parts: Vec<&str> = ptx.iter().map(String::as_str).collect();
        let copies = parts[0].matches("\n$__rf_quick").count();
        let module = device.load_module(&parts).unwrap();
        runtime.modules().loaded(module, plan);
        let kind = AllocationKind::Device;
        let padded = runtime.allocations().padded_size(SIZE);
        let base = device.allocate(padded, kind, 0).unwrap().0;
        let extent = Extent {
            base: DeviceAddress(base),
            size: SIZE,
        };
        runtime.allocations().allocated(kind, extent);
        let side = Side {
            device,
            runtime,
            module,
            base,
            log,
            read: 0,
            _session: session,
        };
        (side, copies)
    }

    /// Launches a kernel: what it leaves in memory, and what is found.
    fn launch(
        &mut self,
        (kernel, threads): (&str, u32),
        (contents, offset): (&[u8], u64),
        [n, m, s]: [i32; 3],
    ) -> (Vec<u8>, String) {
        let place = DeviceAddress(self.base);
        Driver::write(&*self.device, place, contents).unwrap();
        let shape = Launch {
            grid: [1, 1, 1],
            block: [threads, 1, 1],
            ..Launch::default()
        };
        let mut bytes = (self.base + offset).to_le_bytes().to_vec();
        for number in [n, m, s] {
            bytes.extend(number.to_le_bytes());
        }
        support::launch(
            &self.device,
            &self.runtime,
            self.module,
            kernel,
            shape,
            &bytes,
        );
        let mut left = vec![0; SIZE as usize];
        Driver::read(&*self.device, place, &mut left).unwrap();
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        // (Stacks and addresses of the host are the process's own.)
        let is_said = |line: &&str| !line.contains('#') && !line.contains("0x");
        let new: Vec<&str> = said[self.read..].lines().filter(is_said).collect();
        let new = new.join("\n");
        self.read = said.len();
        (left, new)
    }
}

#[test]
fn loops_do_what_they_do_where_each_pass_is_checked() {
    const KERNELS: u32 = 1500;
    let seed = support::seed(20_261_127);
    let mut random = Random(seed | 1);
    let mut text = String::from(".version 7.8\n.target sm_75\n.address_size 64\n");
    for number in 0..KERNELS {
        text.push_str(&kernel(&mut random, number));
    }
    let contents: Vec<u8> = (0..SIZE).map(|_| random.below(256) as u8).collect();
    let mut cases = Vec::new();
    for number in 0..KERNELS {
        for _ in 0..5 {
            let edges = [i32::MAX, i32::MIN, i32::MAX - 3, -1];
            let some = |random: &mut Random| match random.below(5) {
                0 => random.of(&edges),
                1 => random.below(2000) as i32 - 400,
                _ => random.below(90) as i32,
            };
            let numbers = [some(&mut random), some(&mut random), some(&mut random)];
            cases.push((number, random.of(&[0, 0, 0, 1024, 2]), numbers));
        }
    }
    let run = |hoist: bool| {
        let (mut side, copies) = Side::new(&text, hoist);
        let made: Vec<(Vec<u8>, String)> = cases
            .iter()
            .map(|(number, offset, numbers)| {
                let kernel = format!("k{number}");
                let given = (&kernel[..], threads(*number));
                side.launch(given, (&contents, *offset), *numbers)
            })
            .collect();
        (made, copies)
    };
    // A process has one device whose memory checks know: each side has its own.
    if let Some(file) = std::env::var_os(FILE) {
        let made = serde_json::to_vec(&run(false)).unwrap();
        std::fs::write(file, made).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in_place.json");
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "loops_do_what_they_do_where_each_pass_is_checked",
        ])
        .env(FILE, &file)
        .env(support::SEED, seed.to_string())
        .status()
        .unwrap();
    assert!(status.success());
    let read = std::fs::read(&file).unwrap();
    let (in_place, none): (Vec<(Vec<u8>, String)>, usize) = serde_json::from_slice(&read).unwrap();
    let (hoisted, copies) = run(true);
    assert_eq!(none, 0);
    assert!(copies > KERNELS as usize / 2, "{copies} loops have copies");
    let (mut silent, mut found) = (0, 0);
    for ((case, own), expected) in cases.iter().zip(hoisted).zip(in_place) {
        let (number, offset, numbers) = case;
        if own != expected {
            let start = text.find(&format!(".visible .entry k{number}(")).unwrap();
            let end = start + text[start..].find("\n}\n").unwrap();
            panic!(
                "seed {seed}, n, m, s = {numbers:?}, pointer + {offset}\n{}\n\
                 memory is the same: {}\n--- hoisted\n{}\n--- in place\n{}",
                &text[start..end],
                own.0 == expected.0,
                own.1,
                expected.1,
            );
        }
        match expected.1.is_empty() {
            true => silent += 1,
            false => found += 1,
        }
    }
    println!("{copies} copies; {silent} launches without findings, {found} with some");
    assert!(silent > 500 && found > 500, "{silent} {found}");
}
