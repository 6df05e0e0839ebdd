//! Thread instructions a second that the CPU device executes, on one core:
//! a stream, a product and a reduction.

use anyhow::{Context, Result, anyhow, ensure};
use emulate::engine::{LaunchConfig, Machine, Options, Program};
use emulate::mapping::{GRANULE, Memory};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use suite::results::{Provenance, Results, geometric_mean, median, round, today};

/// What to measure.
#[derive(clap::Args)]
pub struct Emulator {
    /// PTX of the bench kernels.
    #[arg(long)]
    ptx: PathBuf,
    /// File for the results.
    #[arg(long)]
    json: PathBuf,
    /// Commit of the measured sources.
    #[arg(long, default_value = "")]
    commit: String,
    /// Launches of each kernel; the median counts.
    #[arg(long, default_value_t = 7)]
    repetitions: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct Summary {
    /// Geometric mean, in millions a second on one core.
    millions_per_second_per_core: f64,
    /// The slowest kernel's.
    slowest: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    kernel: String,
    thread_instructions: u64,
    seconds: f64,
    millions_per_second_per_core: f64,
}

/// A parameter of a kernel.
enum Parameter {
    /// Device memory of so many bytes, zero.
    Buffer(u64),
    Float(f32),
    Int(i32),
}

/// A launch that takes a good part of a second.
struct Case {
    kernel: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    parameters: Vec<Parameter>,
}

fn cases() -> Vec<Case> {
    use Parameter::{Buffer, Float, Int};
    let stream = 4 << 20;
    let product = 256;
    let square = || Buffer(4 * 256 * 256);
    vec![
        Case {
            kernel: "triad",
            grid: [stream / 256, 1, 1],
            block: [256, 1, 1],
            parameters: vec![
                Buffer(4 * u64::from(stream)),
                Buffer(4 * u64::from(stream)),
                Buffer(4 * u64::from(stream)),
                Float(3.0),
                Int(stream.cast_signed()),
            ],
        },
        Case {
            kernel: "gemm_naive",
            grid: [16, 16, 1],
            block: [16, 16, 1],
            parameters: vec![square(), square(), square(), Int(product)],
        },
        Case {
            kernel: "reduction",
            grid: [264, 1, 1],
            block: [256, 1, 1],
            parameters: vec![
                Buffer(4 * u64::from(stream)),
                Buffer(4),
                Int(stream.cast_signed()),
            ],
        },
    ]
}

/// Measures and writes the results.
///
/// # Errors
///
/// The PTX is not the bench kernels', or a kernel faults.
pub fn measure(options: &Emulator) -> Result<()> {
    let text = std::fs::read_to_string(&options.ptx)
        .with_context(|| format!("failed to read {}", options.ptx.display()))?;
    let module = ptx::parse(&text).map_err(|errors| match errors.first() {
        Some(error) => anyhow!("{}: {error}", options.ptx.display()),
        None => anyhow!("{} is not PTX", options.ptx.display()),
    })?;
    let memory = Arc::new(Memory::new()?);
    let machine = Machine::new(&memory, Options::default())?;
    let program = Program::link(&[module], &memory)?;
    let mut rows = Vec::new();
    for case in cases() {
        let row = measure_case(options, &memory, &machine, &program, &case)
            .with_context(|| format!("in the kernel {}", case.kernel))?;
        println!(
            "{:<12} {:>6.0} million thread instructions a second",
            row.kernel, row.millions_per_second_per_core
        );
        rows.push(row);
    }
    let rates = rows.iter().map(|row| row.millions_per_second_per_core);
    let summary = Summary {
        millions_per_second_per_core: round(
            geometric_mean(rates.clone()).context("a kernel executed nothing")?,
        ),
        slowest: rates.fold(f64::INFINITY, f64::min),
    };
    Results {
        summary,
        provenance: Provenance {
            device: suite::results::processor(),
            driver: "none".into(),
            date: today(),
            commit: options.commit.clone(),
        },
        rows,
    }
    .write(&options.json)
}

fn measure_case(
    options: &Emulator,
    memory: &Memory,
    machine: &Machine,
    program: &Program,
    case: &Case,
) -> Result<Row> {
    let entry = program
        .entries()
        .map(|entry| entry.name.as_str())
        .find(|name| name.contains(case.kernel))
        .context("the PTX has no such entry")?;
    let mut params = Vec::new();
    let mut buffers = Vec::new();
    for parameter in &case.parameters {
        let bytes = match parameter {
            Parameter::Buffer(size) => {
                let address = memory.map(size.next_multiple_of(GRANULE), GRANULE)?;
                buffers.push(address);
                address.to_le_bytes().to_vec()
            }
            Parameter::Float(value) => value.to_le_bytes().to_vec(),
            Parameter::Int(value) => value.to_le_bytes().to_vec(),
        };
        params.resize(params.len().next_multiple_of(bytes.len()), 0);
        params.extend(bytes);
    }
    let cancel = AtomicBool::new(false);
    let config = LaunchConfig {
        grid: case.grid,
        block: case.block,
        cluster: [1; 3],
        dynamic_shared: 0,
        params: &params,
        seed: 0,
        threads: 1,
        cancel: &cancel,
        cooperative: false,
    };
    let mut times = Vec::new();
    let mut instructions = 0;
    // The first launch touches the memory, and does not count.
    for repetition in 0..=options.repetitions.max(1) {
        let start = Instant::now();
        let stats = machine.launch(program, entry, &config, memory)?;
        if repetition > 0 {
            times.push(start.elapsed().as_secs_f64());
        }
        instructions = stats.thread_instructions;
    }
    ensure!(instructions > 0, "it executed nothing");
    for buffer in buffers {
        memory.unmap(buffer)?;
    }
    let seconds = median(&mut times).context("no launch was timed")?;
    Ok(Row {
        kernel: case.kernel.to_owned(),
        thread_instructions: instructions,
        seconds: round(seconds),
        millions_per_second_per_core: round(instructions as f64 / 1e6 / seconds),
    })
}
