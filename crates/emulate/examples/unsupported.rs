//! Says which instructions of PTX files the CPU device cannot execute:
//! `cargo run -p ringfence-emulate --example unsupported -- a.ptx b.ptx`.

use emulate::engine::Program;
use emulate::mapping::Memory;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let mut clean = true;
    for path in std::env::args().skip(1) {
        let lines = match check(&path) {
            Ok(lines) => lines,
            Err(message) => vec![message],
        };
        clean &= lines.is_empty();
        for line in lines {
            println!("{path}: {line}");
        }
    }
    if clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn check(path: &str) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let module = ptx::parse(&text)
        .map_err(|errors| errors.first().map_or_else(String::new, ToString::to_string))?;
    let memory = Arc::new(Memory::new().map_err(|e| e.to_string())?);
    let program = Program::link(&[module], &memory).map_err(|e| e.to_string())?;
    Ok(program
        .unsupported()
        .iter()
        .map(|(_, line, reason)| format!("line {line}: {reason}"))
        .collect())
}
