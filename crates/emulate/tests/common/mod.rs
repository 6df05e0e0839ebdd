//! Helpers of the engine's tests: memory, modules from PTX text or from CUDA
//! source through the real compiler, launches with typed parameters.

#![allow(dead_code)]

use emulate::engine::{Fault, LaunchConfig, Machine, Options, Program, Stats, Stream};
use emulate::mapping::{GRANULE, Memory};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// A machine with its memory and what device code printed.
pub struct Bench {
    pub memory: Arc<Memory>,
    pub machine: Machine,
    pub printed: Arc<Mutex<(Vec<u8>, Vec<u8>)>>,
}

/// One kernel parameter, as bytes with its alignment.
pub enum P<'a> {
    U64(u64),
    U32(u32),
    F32(f32),
    F64(f64),
    Bytes(&'a [u8], usize),
}

/// The parameter block of a launch.
pub fn params(list: &[P<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for p in list {
        let (bytes, align) = match p {
            P::U64(x) => (x.to_le_bytes().to_vec(), 8),
            P::U32(x) => (x.to_le_bytes().to_vec(), 4),
            P::F32(x) => (x.to_le_bytes().to_vec(), 4),
            P::F64(x) => (x.to_le_bytes().to_vec(), 8),
            P::Bytes(b, align) => (b.to_vec(), *align),
        };
        out.resize(out.len().next_multiple_of(align), 0);
        out.extend(bytes);
    }
    out
}

/// Grid and block.
pub type Shape = ([u32; 3], [u32; 3]);

impl Bench {
    pub fn new() -> Bench {
        Bench::with(true)
    }

    /// With or without the code for AVX2.
    pub fn with(wide: bool) -> Bench {
        Bench::after(wide, 0)
    }

    /// The same, where another kernel left this byte in all registers, and in
    /// shared and local memory.
    pub fn after(wide: bool, residue: u8) -> Bench {
        let memory = Arc::new(Memory::new().unwrap());
        let printed = Arc::new(Mutex::new((Vec::new(), Vec::new())));
        let sink = printed.clone();
        let print = Box::new(move |stream, text: &[u8]| {
            let mut printed = sink.lock().unwrap();
            match stream {
                Stream::Output => printed.0.extend_from_slice(text),
                Stream::Errors => printed.1.extend_from_slice(text),
            }
        });
        let machine = Machine::new(
            &memory,
            Options {
                heap_size: 8 << 20,
                print,
                wide,
                residue,
            },
        )
        .unwrap();
        Bench {
            memory,
            machine,
            printed,
        }
    }

    pub fn output(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.printed.lock().unwrap().0)).unwrap()
    }

    pub fn errors(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.printed.lock().unwrap().1)).unwrap()
    }

    pub fn link(&self, texts: &[&str]) -> Program {
        let modules: Vec<_> = texts
            .iter()
            .map(|t| ptx::parse(t).unwrap_or_else(|e| panic!("{}", e[0])))
            .collect();
        Program::link(&modules, &self.memory).unwrap()
    }

    /// Device memory that holds these bytes.
    pub fn upload<T: Copy>(&self, values: &[T], bytes: impl Fn(T) -> Vec<u8>) -> u64 {
        let data: Vec<u8> = values.iter().flat_map(|v| bytes(*v)).collect();
        let address = self
            .memory
            .map(
                (data.len() as u64).max(1).next_multiple_of(GRANULE),
                GRANULE,
            )
            .unwrap();
        self.memory.write(address, &data).unwrap();
        address
    }

    pub fn f32s(&self, values: &[f32]) -> u64 {
        self.upload(values, |v| v.to_le_bytes().to_vec())
    }

    pub fn u32s(&self, values: &[u32]) -> u64 {
        self.upload(values, |v| v.to_le_bytes().to_vec())
    }

    pub fn u64s(&self, values: &[u64]) -> u64 {
        self.upload(values, |v| v.to_le_bytes().to_vec())
    }

    pub fn read_u32s(&self, address: u64, count: usize) -> Vec<u32> {
        let mut bytes = vec![0; count * 4];
        self.memory.read(address, &mut bytes).unwrap();
        bytes
            .chunks_exact(4)
            .map(|c| u32::from_le_bytes(c.try_into().unwrap()))
            .collect()
    }

    pub fn read_f32s(&self, address: u64, count: usize) -> Vec<f32> {
        self.read_u32s(address, count)
            .into_iter()
            .map(f32::from_bits)
            .collect()
    }

    pub fn read_u64s(&self, address: u64, count: usize) -> Vec<u64> {
        let words = self.read_u32s(address, count * 2);
        words
            .chunks_exact(2)
            .map(|w| u64::from(w[0]) | u64::from(w[1]) << 32)
            .collect()
    }

    pub fn launch(
        &self,
        program: &Program,
        entry: &str,
        grid: [u32; 3],
        block: [u32; 3],
        list: &[P<'_>],
    ) -> Result<Stats, Fault> {
        self.launch_with(program, entry, (grid, block), list, |_| {})
    }

    pub fn launch_with(
        &self,
        program: &Program,
        entry: &str,
        shape: Shape,
        list: &[P<'_>],
        change: impl FnOnce(&mut LaunchConfig<'_>),
    ) -> Result<Stats, Fault> {
        let (params, never) = (params(list), AtomicBool::new(false));
        let mut config = config(shape, &params, &never);
        change(&mut config);
        self.machine.launch(program, entry, &config, &self.memory)
    }

    pub fn launch_until(
        &self,
        program: &Program,
        entry: &str,
        shape: Shape,
        list: &[P<'_>],
        cancel: &AtomicBool,
    ) -> Result<Stats, Fault> {
        let params = params(list);
        let config = config(shape, &params, cancel);
        self.machine.launch(program, entry, &config, &self.memory)
    }
}

fn config<'c>((grid, block): Shape, params: &'c [u8], cancel: &'c AtomicBool) -> LaunchConfig<'c> {
    LaunchConfig {
        contained: None,
        grid,
        block,
        cluster: [1; 3],
        dynamic_shared: 0,
        params,
        seed: 0,
        threads: 2,
        cancel,
        cooperative: false,
    }
}

/// Entry whose mangled name contains `name`.
pub fn named<'p>(program: &'p Program, name: &str) -> &'p str {
    let mut found: Vec<&str> = program
        .entries()
        .map(|e| e.name.as_str())
        .filter(|n| n.contains(name))
        .collect();
    found.sort_by_key(|n| n.len());
    found
        .first()
        .copied()
        .unwrap_or_else(|| panic!("no entry named {name}"))
}

/// PTX of a CUDA source, by the real compiler; cached by content under the
/// target folder. Needs the toolchain: a machine without it fails the test
/// with a message that says so.
pub fn compile(name: &str, source: &str, arch: &str, flags: &[&str]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (source, arch, flags).hash(&mut hasher);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ptx");
    std::fs::create_dir_all(&folder).unwrap();
    let stem = format!("{name}-{arch}-{:016x}", hasher.finish());
    let ptx = folder.join(format!("{stem}.ptx"));
    if let Ok(text) = std::fs::read_to_string(&ptx) {
        return text;
    }
    let input = folder.join(format!("{stem}.cu"));
    std::fs::write(&input, source).unwrap();
    let partial = folder.join(format!("{stem}-{}.part", std::process::id()));
    let output = Command::new(toolchain::cuda().nvcc())
        .args(["-ptx", "-std=c++17", &format!("-arch={arch}"), "-o"])
        .arg(&partial)
        .arg(&input)
        .args(flags)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "nvcc: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::rename(&partial, &ptx).unwrap();
    std::fs::read_to_string(ptx).unwrap()
}
