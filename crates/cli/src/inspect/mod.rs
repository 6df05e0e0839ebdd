//! `ringfence inspect`: the kernels of a file, and what Ringfence can check of
//! them.

mod text;

use crate::options::InspectOptions;
use crate::terminal;
use anyhow::{Context, Result, bail};
use fatbin::{Compression, Kind};
use model::{AccessKind, AccessSite, Provenance};
use object::{Object, ObjectSection};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Decompressed PTX or machine code larger than this is not inspected.
const PAYLOAD_LIMIT: u64 = 1 << 30;

/// What a file holds. The JSON form is API.
#[derive(Debug, Default, Serialize)]
pub struct Inspection {
    version: u32,
    file: String,
    /// The pieces of device code, in the order of the file.
    images: Vec<Image>,
    /// The kernels, by mangled name.
    kernels: BTreeMap<String, Kernel>,
    /// What could not be read.
    problems: Vec<String>,
}

/// One piece of device code.
#[derive(Debug, Serialize)]
struct Image {
    kind: &'static str,
    architecture: u32,
    /// PTX ISA version.
    ptx_version: Option<String>,
    compression: &'static str,
    bytes: u64,
    name: Option<String>,
    kernels: usize,
}

/// One kernel, in all its images.
#[derive(Debug, Default, Serialize)]
struct Kernel {
    demangled: String,
    /// Architectures of its PTX.
    ptx: BTreeSet<u32>,
    /// Architectures of its machine code.
    sass: BTreeSet<u32>,
    /// Its accesses, from the PTX with the highest architecture.
    accesses: Option<Accesses>,
}

/// Accesses of one kernel and the device functions that it calls directly.
#[derive(Debug, Default, Serialize)]
struct Accesses {
    /// Sites in the kernel itself, as `read`, `write`, `atomic`.
    by_kind: BTreeMap<String, u32>,
    /// Sites in the kernel itself, by the source of their bounds.
    by_bounds: BTreeMap<String, u32>,
    /// With a check against exact bounds.
    exact: u32,
    /// With a check of the address alone.
    weak: u32,
    /// Why those in the kernel itself have no bounds of their own.
    weak_because: BTreeMap<String, u32>,
    /// Without a check, by opcode.
    unchecked: BTreeMap<String, u32>,
    /// Calls through pointers that pass no bounds.
    calls_without_bounds: u32,
    /// What prevents every launch from being proved in bounds; none if that
    /// depends on the launch.
    proof_obstacle: Option<ProofObstacle>,
    /// Sites of the kernel that carry no checks in its residual copy, if it has
    /// one.
    residual_without: Option<u32>,
}

/// Why all launches of a kernel are checked.
#[derive(Debug, Serialize)]
struct ProofObstacle {
    /// For people; goes on after "because".
    reason: &'static str,
    /// Line of the PTX, from 1.
    ptx_line: Option<u32>,
    /// Line of the source that it was compiled from, if the PTX has it.
    source: Option<String>,
}

/// Inspects a file and prints what it holds.
pub fn inspect(options: &InspectOptions) -> Result<()> {
    let shown = options.file.display();
    let bytes = std::fs::read(&options.file).with_context(|| format!("cannot read {shown}"))?;
    let inspection = inspection(&options.file, &bytes)?;
    if options.json {
        terminal::print(&(serde_json::to_string_pretty(&inspection)? + "\n"))
    } else {
        terminal::print(&text::text(&inspection))
    }
}

fn inspection(path: &Path, bytes: &[u8]) -> Result<Inspection> {
    let shown = path.display();
    let mut found = Inspection {
        version: 1,
        file: shown.to_string(),
        ..Inspection::default()
    };
    if bytes.starts_with(b"\x7fELF") {
        let file =
            object::File::parse(bytes).with_context(|| format!("{shown} is a damaged ELF file"))?;
        if is_cubin(bytes) {
            found.machine_code(bytes, cubin_architecture(bytes), "none", None);
            return Ok(found);
        }
        let mut any = false;
        for section in file.sections() {
            let Ok(name @ (".nv_fatbin" | "__nv_relfatbin")) = section.name() else {
                continue;
            };
            let data = section
                .data()
                .with_context(|| format!("section {name} of {shown} cannot be read"))?;
            any = true;
            found.fat_binary(data);
        }
        if !any {
            bail!(
                "{shown} holds no device code; a program may load it from its libraries, which can be inspected, too"
            );
        }
    } else if bytes.starts_with(&fatbin::CONTAINER_MAGIC.to_le_bytes()) {
        found.fat_binary(bytes);
    } else {
        let text = std::str::from_utf8(bytes)
            .ok()
            .filter(|text| text.contains(".version"));
        let text = text.with_context(|| {
            format!(
                "{shown} is neither a program nor a library (ELF), a cubin, a fat binary, or PTX"
            )
        })?;
        found.ptx(text.trim_end_matches('\0'), None, None, "none", None);
    }
    Ok(found)
}

/// EM_CUDA, the machine of cubins.
const EM_CUDA: u16 = 190;

fn is_cubin(bytes: &[u8]) -> bool {
    bytes.get(18..20) == Some(&EM_CUDA.to_le_bytes())
}

/// The architecture in a cubin's ELF flags: the low byte up to CUDA 12, the
/// second byte in the ABI version that CUDA 13 writes (measured on nvcc 13).
fn cubin_architecture(bytes: &[u8]) -> u32 {
    let flags = bytes
        .get(48..52)
        .and_then(|flags| flags.try_into().ok())
        .map_or(0, u32::from_le_bytes);
    match bytes.get(8) {
        Some(version) if *version >= 8 => (flags >> 8) & 0xff,
        _ => flags & 0xff,
    }
}

impl Inspection {
    fn fat_binary(&mut self, bytes: &[u8]) {
        let entries = match fatbin::parse(bytes) {
            Ok(entries) => entries,
            Err(error) => {
                return self
                    .problems
                    .push(format!("a fat binary cannot be read: {error}"));
            }
        };
        for entry in entries {
            let payload = match entry.payload(PAYLOAD_LIMIT) {
                Ok(payload) => payload,
                Err(error) => {
                    self.problems.push(format!(
                        "an entry for sm_{} cannot be read: {error}",
                        entry.arch
                    ));
                    continue;
                }
            };
            let compression = match entry.compression {
                Compression::None => "none",
                Compression::Lz4 => "lz4",
                Compression::Zstd => "zstd",
            };
            let name = entry.identifier.map(str::to_string);
            match entry.kind {
                Kind::Ptx => match std::str::from_utf8(&payload) {
                    Ok(text) => self.ptx(
                        text,
                        Some(entry.arch),
                        Some(entry.version),
                        compression,
                        name,
                    ),
                    Err(_) => self
                        .problems
                        .push(format!("PTX for sm_{} is not text", entry.arch)),
                },
                Kind::Elf => self.machine_code(&payload, entry.arch, compression, name),
                kind => self.images.push(Image {
                    kind: if kind == Kind::LtoIr {
                        "lto-ir"
                    } else {
                        "other"
                    },
                    architecture: entry.arch,
                    ptx_version: None,
                    compression,
                    bytes: payload.len() as u64,
                    name,
                    kernels: 0,
                }),
            }
        }
    }

    fn ptx(
        &mut self,
        text: &str,
        arch: Option<u32>,
        version: Option<(u16, u16)>,
        compression: &'static str,
        name: Option<String>,
    ) {
        let arch = arch.or_else(|| target(text)).unwrap_or(0);
        let instrumented = instrument::instrument(text, &instrument::Options::default());
        let instrumented = instrumented.map_err(|error| {
            self.problems.push(format!(
                "the PTX for sm_{arch} would run without checks: {error}"
            ));
        });
        let entries = instrumented
            .as_ref()
            .map_or(0, |instrumented| instrumented.entries.len());
        self.images.push(Image {
            kind: "ptx",
            architecture: arch,
            ptx_version: version.map(|(major, minor)| format!("{major}.{minor}")),
            compression,
            bytes: text.len() as u64,
            name,
            kernels: entries,
        });
        let Ok(instrumented) = instrumented else {
            return;
        };
        for entry in instrumented.entries {
            let kernel = self.kernel(&entry.name);
            let best = kernel.ptx.last().is_none_or(|best| *best <= arch);
            kernel.ptx.insert(arch);
            if !best {
                continue;
            }
            let mut accesses = Accesses {
                exact: entry.coverage.exact_sites,
                weak: entry.coverage.weak_sites,
                unchecked: entry.coverage.unchecked_sites,
                calls_without_bounds: entry.coverage.calls_without_bounds,
                residual_without: entry.residual.as_ref().map(|residual| {
                    let sites = instrumented.sites.iter();
                    sites.filter(|site| residual.elides(site.group)).count() as u32
                }),
                proof_obstacle: entry.proof.err().map(|obstacle| {
                    let at_line = |site: &&AccessSite| {
                        site.function == entry.name && Some(site.ptx_line) == obstacle.line
                    };
                    let site = instrumented.sites.iter().find(at_line);
                    ProofObstacle {
                        reason: obstacle.reason.text(),
                        ptx_line: obstacle.line,
                        source: site
                            .and_then(|site| site.source.as_ref())
                            .map(|source| format!("{}:{}", source.file, source.line)),
                    }
                }),
                ..Accesses::default()
            };
            for site in instrumented
                .sites
                .iter()
                .filter(|site| site.function == entry.name)
            {
                *accesses.by_kind.entry(kind(site.kind).into()).or_default() += 1;
                *accesses
                    .by_bounds
                    .entry(bounds(site.provenance).into())
                    .or_default() += 1;
                if let Ok(at) = instrumented
                    .lost
                    .binary_search_by_key(&site.id, |lost| lost.0)
                {
                    let because = instrumented.lost[at].1.to_string();
                    *accesses.weak_because.entry(because).or_default() += 1;
                }
            }
            kernel.accesses = Some(accesses);
        }
    }

    fn machine_code(
        &mut self,
        bytes: &[u8],
        arch: u32,
        compression: &'static str,
        name: Option<String>,
    ) {
        let kernels = match object::File::parse(bytes) {
            // Each kernel and function has a section of its own; kernels have
            // their parameters' constant bank beside it.
            Ok(file) => file
                .sections()
                .filter_map(|section| {
                    section
                        .name()
                        .ok()?
                        .strip_prefix(".nv.constant0.")
                        .map(str::to_string)
                })
                .collect(),
            Err(error) => {
                self.problems.push(format!(
                    "machine code for sm_{arch} cannot be read: {error}"
                ));
                Vec::new()
            }
        };
        self.images.push(Image {
            kind: "sass",
            architecture: arch,
            ptx_version: None,
            compression,
            bytes: bytes.len() as u64,
            name,
            kernels: kernels.len(),
        });
        for name in kernels {
            self.kernel(&name).sass.insert(arch);
        }
    }

    fn kernel(&mut self, name: &str) -> &mut Kernel {
        self.kernels
            .entry(name.to_string())
            .or_insert_with(|| Kernel {
                demangled: report::demangle(name),
                ..Kernel::default()
            })
    }
}

/// The number in `.target sm_90a`.
fn target(text: &str) -> Option<u32> {
    let (_, after) = text.split_once(".target")?;
    let (_, after) = after.split_once("sm_")?;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn kind(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Read => "read",
        AccessKind::Write => "write",
        AccessKind::Atomic => "atomic",
    }
}

fn bounds(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::KernelParameter { .. } => "kernel-parameter",
        Provenance::Variable => "variable",
        Provenance::Lookup => "lookup",
        Provenance::Several => "several",
        Provenance::Unknown => "unknown",
        Provenance::Shadow => "shadow",
    }
}
