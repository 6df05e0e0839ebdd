//! How many loads and stores there are in PTX, and how many of them the pass
//! fences and the verifier accepts (in kind Guardian's table 3, Middleware 2024).

use crate::instrument::folders;
use anyhow::{Context, Result, bail};
use instrument::{FenceError, FenceForm, fence, verify_contained};
use ptx::table::Effect;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use suite::results::{Provenance, Results};

/// What to count.
#[derive(clap::Args)]
pub struct Fenced {
    /// Folders below which all .ptx files are taken.
    #[arg(long, required = true)]
    ptx: Vec<PathBuf>,
    /// File for the results.
    #[arg(long)]
    json: PathBuf,
    /// Commit of the sources.
    #[arg(long, default_value = "")]
    commit: String,
}

/// Numbers of a folder, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Numbers {
    /// PTX files.
    files: u64,
    /// Of these, files that the pass refuses, by name of what cannot be
    /// contained: none of their kernels runs.
    refused: u64,
    /// Kernels, in files that are not refused.
    kernels: u64,
    /// Other functions with a body.
    functions: u64,
    /// Loads in the source, from any space.
    loads: u64,
    /// Stores and atomic operations in the source.
    stores: u64,
    /// Loads that the pass has found and made safe.
    fenced_loads: u64,
    /// Stores and atomic operations that it has.
    fenced_stores: u64,
    /// Accesses whose address is fixed by the text: they need no fence.
    fixed: u64,
    /// Accesses fenced in global memory.
    global: u64,
    /// Accesses fenced in whichever space they are.
    generic: u64,
    /// Accesses fenced in shared memory.
    shared: u64,
    /// Accesses fenced in a variable in local, constant or parameter memory.
    variable: u64,
    /// Loops in which threads look whether they must end.
    looking_loops: u64,
    /// Kernels that clear shared memory.
    clearing_kernels: u64,
}

impl Numbers {
    fn add(&mut self, other: &Numbers) {
        for (sum, number) in self.all().into_iter().zip(other.clone().all()) {
            *sum += *number;
        }
    }

    fn all(&mut self) -> [&mut u64; 15] {
        [
            &mut self.files,
            &mut self.refused,
            &mut self.kernels,
            &mut self.functions,
            &mut self.loads,
            &mut self.stores,
            &mut self.fenced_loads,
            &mut self.fenced_stores,
            &mut self.fixed,
            &mut self.global,
            &mut self.generic,
            &mut self.shared,
            &mut self.variable,
            &mut self.looking_loops,
            &mut self.clearing_kernels,
        ]
    }

    /// Of one file.
    fn of(text: &str) -> Result<Numbers> {
        let mut numbers = Numbers {
            files: 1,
            ..Numbers::default()
        };
        let fenced = match fence(text, FenceForm::default()) {
            Ok(fenced) => fenced,
            Err(FenceError::Refused(_)) => {
                numbers.refused = 1;
                return Ok(numbers);
            }
            Err(error) => return Err(error.into()),
        };
        if let Err(errors) = verify_contained(&fenced.text) {
            let first = errors.first().map(ToString::to_string);
            bail!(
                "the verifier refuses what the pass has made: {}",
                first.unwrap_or_default()
            );
        }
        let Ok(module) = ptx::parse(text) else {
            bail!("PTX that was fenced cannot be read");
        };
        for function in module
            .functions()
            .filter(|function| function.body.is_some())
        {
            match function.is_entry {
                true => numbers.kernels += 1,
                false => numbers.functions += 1,
            }
            for instruction in function.instructions() {
                let info = ptx::table::classify(instruction);
                for access in info.iter().flat_map(|info| &info.accesses) {
                    match access.effect {
                        Effect::Read => numbers.loads += 1,
                        Effect::Write | Effect::Atomic => numbers.stores += 1,
                    }
                }
            }
        }
        let counts = fenced.counts;
        Ok(Numbers {
            fenced_loads: counts.loads,
            fenced_stores: counts.stores,
            fixed: counts.fixed,
            global: counts.global,
            generic: counts.generic,
            shared: counts.shared,
            variable: counts.variable,
            looking_loops: counts.looking_loops,
            clearing_kernels: counts.clearing_kernels,
            ..numbers
        })
    }
}

/// One folder of PTX.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    folder: String,
    #[serde(flatten)]
    numbers: Numbers,
}

/// Counts and writes the results.
///
/// # Errors
///
/// There is no PTX, some of it cannot be read, or the verifier refuses what the
/// pass has fenced.
pub fn measure(options: &Fenced) -> Result<()> {
    let mut rows = Vec::new();
    let mut summary = Numbers::default();
    for path in &options.ptx {
        for (folder, files) in folders(path)? {
            let mut numbers = Numbers::default();
            for text in &files {
                let of = Numbers::of(text);
                numbers.add(&of.with_context(|| format!("PTX of the folder `{folder}`"))?);
            }
            summary.add(&numbers);
            rows.push(Row { folder, numbers });
        }
    }
    println!("{}", serde_json::to_string_pretty(&summary)?);
    Results {
        summary,
        provenance: Provenance::without_driver("none".into(), &options.commit),
        rows,
    }
    .write(&options.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_access_is_found() {
        let text = ".version 8.0\n.target sm_90\n.address_size 64\n\
            .visible .entry k(.param .u64 p) {\n\
            .reg .b64 %rd<3>; .reg .b32 %r<3>;\n\
            ld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\n\
            atom.global.add.u32 %r2, [%rd1], %r1;\nst.global.u32 [%rd1], %r2;\nret;\n}\n";
        let numbers = Numbers::of(text).unwrap();
        assert_eq!((numbers.kernels, numbers.loads, numbers.stores), (1, 2, 2));
        assert_eq!((numbers.fenced_loads, numbers.fenced_stores), (2, 2));
        assert_eq!((numbers.fixed, numbers.global), (1, 3));
        let mut twice = numbers.clone();
        twice.add(&numbers);
        assert_eq!((twice.files, twice.stores), (2, 4));
    }
}
