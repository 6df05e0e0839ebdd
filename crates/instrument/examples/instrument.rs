//! Instruments a file: `instrument IN.ptx OUT.ptx`, and says what it did.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, input, output] = arguments.as_slice() else {
        eprintln!("usage: instrument IN.ptx OUT.ptx");
        return ExitCode::from(2);
    };
    let source = match std::fs::read_to_string(input) {
        Ok(source) => source,
        Err(error) => {
            eprintln!("{input}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let start = std::time::Instant::now();
    match instrument::instrument(&source, &instrument::Options::default()) {
        Ok(done) => {
            let seconds = start.elapsed().as_secs_f64();
            for entry in &done.entries {
                let c = &entry.coverage;
                println!(
                    "{}: roots {:?}, {} exact, {} weak, unchecked {:?}",
                    entry.name, entry.roots, c.exact_sites, c.weak_sites, c.unchecked_sites
                );
            }
            eprintln!(
                "{} sites, {:.1} MB/s",
                done.sites.len(),
                source.len() as f64 / 1e6 / seconds
            );
            if let Err(errors) = instrument::verify_output(&source, &done) {
                for error in errors.iter().take(10) {
                    eprintln!("{input}: VERIFY {error}");
                }
            }
            if let Err(error) = std::fs::write(output, done.text) {
                eprintln!("{output}: {error}");
                return ExitCode::FAILURE;
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{input}: {error}");
            ExitCode::FAILURE
        }
    }
}
