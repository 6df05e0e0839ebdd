//! How fast the CPU device executes PTX, on one core. Writes
//! `bench/results/cpu-emulator.json` at the root of the workspace.
//!
//! Each kernel runs for one and a half seconds, in rounds; the best round
//! counts, because other processes share the machine.

use emulate::engine::{LaunchConfig, Machine, Options, Program};
use emulate::mapping::{GRANULE, Memory};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

#[derive(Serialize)]
struct Summary {
    thread_instructions_per_second_per_core: f64,
    stream: f64,
    product: f64,
    reduction: f64,
}

#[derive(Serialize)]
struct Row {
    kernel: &'static str,
    group: &'static str,
    thread_instructions: u64,
    seconds: f64,
    thread_instructions_per_second: f64,
}

#[derive(Serialize)]
struct Results {
    summary: Summary,
    rows: Vec<Row>,
    device: String,
    driver: &'static str,
    date: String,
    commit: String,
}

struct Case {
    kernel: &'static str,
    group: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    params: Vec<u8>,
}

fn main() {
    let memory = Arc::new(Memory::new().expect("memory"));
    let machine = Machine::new(&memory, Options::default()).expect("machine");
    let module = ptx::parse(include_str!("kernels.ptx")).expect("kernels.ptx parses");
    let program = Program::link(&[module], &memory).expect("kernels.ptx links");
    let n = 1u32 << 18;
    let buffer = || {
        memory
            .map(u64::from(n * 4).next_multiple_of(GRANULE), GRANULE)
            .expect("buffer")
    };
    let (x, y, z) = (buffer(), buffer(), buffer());
    let size = 256u32;
    let product = |kernel| Case {
        kernel,
        group: "product",
        grid: [size / 16, size / 16, 1],
        block: [16, 16, 1],
        params: params(&[(x, 8), (y, 8), (z, 8), (u64::from(size), 4)]),
    };
    let reduction = |kernel, grid| Case {
        kernel,
        group: "reduction",
        grid: [grid, 1, 1],
        block: [256, 1, 1],
        params: params(&[(x, 8), (z, 8), (u64::from(n), 4)]),
    };
    let a = u64::from(1.5f32.to_bits());
    let cases = [
        Case {
            kernel: "saxpy",
            group: "stream",
            grid: [64, 1, 1],
            block: [256, 1, 1],
            params: params(&[(u64::from(n), 4), (a, 4), (x, 8), (y, 8)]),
        },
        Case {
            kernel: "triad",
            group: "stream",
            grid: [n / 256, 1, 1],
            block: [256, 1, 1],
            params: params(&[(u64::from(n), 4), (a, 4), (x, 8), (y, 8), (z, 8)]),
        },
        product("naive_product"),
        product("tiled_product"),
        reduction("block_reduction", n / 256),
        reduction("shuffle_reduction", 64),
    ];
    let rows: Vec<Row> = cases
        .iter()
        .map(|case| measure(&machine, &program, &memory, case))
        .collect();
    let of = |group: &str| {
        geomean(
            rows.iter()
                .filter(|r| r.group == group)
                .map(|r| r.thread_instructions_per_second),
        )
    };
    let (stream, product, reduction) = (of("stream"), of("product"), of("reduction"));
    let results = Results {
        summary: Summary {
            thread_instructions_per_second_per_core: geomean(
                [stream, product, reduction].into_iter(),
            ),
            stream,
            product,
            reduction,
        },
        rows,
        device: cpu_name(),
        driver: "",
        date: output("date", &["-u", "+%Y-%m-%d"]),
        commit: output("git", &["rev-parse", "--short=12", "HEAD"]),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the workspace's root");
    let folder = root.join("bench/results");
    std::fs::create_dir_all(&folder).expect("bench/results");
    let mut text = serde_json::to_string_pretty(&results).expect("numbers");
    text.push('\n');
    std::fs::write(folder.join("cpu-emulator.json"), &text)
        .expect("bench/results/cpu-emulator.json");
    print!("{text}");
}

/// The parameter block of (value, bytes) pairs.
fn params(values: &[(u64, usize)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (value, size) in values {
        out.resize(out.len().next_multiple_of(*size), 0);
        out.extend_from_slice(&value.to_le_bytes()[..*size]);
    }
    out
}

fn measure(machine: &Machine, program: &Program, memory: &Memory, case: &Case) -> Row {
    let cancel = AtomicBool::new(false);
    let config = LaunchConfig {
        contained: None,
        grid: case.grid,
        block: case.block,
        cluster: [1; 3],
        dynamic_shared: 0,
        params: &case.params,
        seed: 0,
        threads: 1,
        cancel: &cancel,
        cooperative: false,
    };
    let round = || {
        let start = Instant::now();
        let stats = machine
            .launch(program, case.kernel, &config, memory)
            .expect("the kernel runs");
        (stats.thread_instructions, start.elapsed())
    };
    let (thread_instructions, mut best) = round();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1500) {
        best = best.min(round().1);
    }
    let seconds = best.as_secs_f64();
    let thread_instructions_per_second = thread_instructions as f64 / seconds;
    Row {
        kernel: case.kernel,
        group: case.group,
        thread_instructions,
        seconds,
        thread_instructions_per_second,
    }
}

fn geomean(values: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    (logs.iter().sum::<f64>() / logs.len() as f64).exp()
}

fn cpu_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(':'))
        .map(|(_, n)| n.trim().to_string());
    name.unwrap_or_else(|| "unknown".into())
}

fn output(command: &str, arguments: &[&str]) -> String {
    let output = std::process::Command::new(command).args(arguments).output();
    output
        .ok()
        .and_then(|o| String::from_utf8(o.stdout).ok())
        .unwrap_or_default()
        .trim()
        .to_string()
}
