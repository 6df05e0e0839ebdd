//! What can be found out about a program before it runs.

use anyhow::{Context, Result, bail};
use model::DeviceKind;
use object::elf::{EM_X86_64, PT_INTERP};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How a program is linked to the CUDA runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// To libcudart.so.
    Shared,
    /// Into the program, whose symbol table names its functions.
    Static,
    /// Into the program, which is stripped.
    StaticStripped,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Facts {
    /// An interpreter runs it: nothing is known about what it loads.
    Script,
    /// A dynamically linked program.
    Dynamic {
        /// It holds device code itself.
        device_code: bool,
        /// Its CUDA runtime, if it has one.
        runtime: Option<Runtime>,
        /// It is linked to OpenCL's loader.
        opencl: bool,
        /// It can neither load device code from a library nor start another
        /// program.
        closed: bool,
    },
}

/// Finds a program as a shell would: with a slash it is a path, without one it
/// is searched in PATH.
pub fn find(name: &OsStr) -> Result<PathBuf> {
    let path = Path::new(name);
    let shown = path.display();
    if name.as_encoded_bytes().contains(&b'/') {
        if !path.exists() {
            bail!("there is no program {shown}");
        }
        if path.is_dir() {
            bail!("{shown} is a directory, not a program");
        }
        if !is_executable(path) {
            bail!("{shown} is not executable; `chmod +x` makes it so");
        }
        return Ok(path.to_path_buf());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders)
        .map(|folder| folder.join(path))
        .find(|candidate| is_executable(candidate));
    match found {
        Some(found) => Ok(found),
        None if path.is_file() => {
            bail!("no program {shown} is in PATH; to run the file here, write ./{shown}")
        }
        None => bail!("no program {shown} is in PATH"),
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Reads the properties of the file.
///
/// # Errors
///
/// It cannot be read, or nothing can be preloaded into it: not a 64-bit x86
/// program, linked statically to the C library, or setuid.
pub fn examine(path: &Path) -> Result<Facts> {
    let shown = path.display();
    let mode = path
        .metadata()
        .with_context(|| format!("cannot read {shown}"))?
        .permissions()
        .mode();
    if mode & 0o6000 != 0 {
        bail!(
            "{shown} is a setuid or setgid program, and the dynamic loader preloads nothing into those"
        );
    }
    let Ok(bytes) = std::fs::read(path) else {
        // Executable but not readable: the kernel runs it all the same.
        return Ok(Facts::Script);
    };
    if bytes.starts_with(b"#!") {
        return Ok(Facts::Script);
    }
    if !bytes.starts_with(b"\x7fELF") {
        bail!("{shown} is neither a program (ELF) nor a script that starts with #!");
    }
    let file: ElfFile64<'_, object::Endianness> = ElfFile64::parse(&*bytes)
        .ok()
        .filter(|file| file.elf_header().e_machine(file.endian()) == EM_X86_64)
        .with_context(|| format!("{shown} is not a 64-bit x86 Linux program, or it is damaged"))?;
    let endian = file.endian();
    if !file
        .elf_program_headers()
        .iter()
        .any(|header| header.p_type(endian) == PT_INTERP)
    {
        bail!(
            "{shown} is linked statically to the C library, so nothing can be preloaded into it; link it dynamically"
        );
    }
    Ok(dynamic(&file, &bytes))
}

fn dynamic(file: &ElfFile64<'_, object::Endianness>, bytes: &[u8]) -> Facts {
    let device_code = file
        .sections()
        .any(|section| section.name().is_ok_and(|name| name == ".nv_fatbin"));
    let needed = needed_libraries(file, bytes);
    let needs = |prefix: &str| needed.iter().any(|name| name.starts_with(prefix));
    let imports = |names: &[&str]| {
        file.dynamic_symbols().any(|symbol| {
            symbol.is_undefined() && symbol.name().is_ok_and(|name| names.contains(&name))
        })
    };
    let named = || {
        file.symbols()
            .any(|symbol| symbol.is_definition() && symbol.name() == Ok("__cudaRegisterFatBinary"))
    };
    let runtime = if needs("libcudart.so") {
        Some(Runtime::Shared)
    } else if !device_code || needs("libcuda.so") {
        None
    } else if named() {
        Some(Runtime::Static)
    } else {
        Some(Runtime::StaticStripped)
    };
    let system = |name: &String| SYSTEM_LIBRARIES.iter().any(|known| name.starts_with(known));
    let closed = needed.iter().all(system) && !imports(&OPENERS);
    Facts::Dynamic {
        device_code,
        runtime,
        opencl: needs("libOpenCL.so"),
        closed,
    }
}

/// Libraries that hold no device code.
const SYSTEM_LIBRARIES: [&str; 9] = [
    "libc.so",
    "libm.so",
    "libpthread.so",
    "libdl.so",
    "librt.so",
    "libgcc_s.so",
    "libstdc++.so",
    "ld-linux",
    "libselinux.so",
];

/// Functions by which a program reaches code that its file does not name.
const OPENERS: [&str; 16] = [
    "dlopen",
    "dlmopen",
    "execve",
    "execv",
    "execvp",
    "execvpe",
    "execl",
    "execlp",
    "execle",
    "fexecve",
    "posix_spawn",
    "posix_spawnp",
    "system",
    "popen",
    "syscall",
    "execveat",
];

/// Names of the shared libraries that a program needs (`DT_NEEDED`).
fn needed_libraries(file: &ElfFile64<'_, object::Endianness>, bytes: &[u8]) -> Vec<String> {
    let endian = file.endian();
    let sections = file.elf_section_table();
    let Ok(Some((entries, link))) = sections.dynamic(endian, bytes) else {
        return Vec::new();
    };
    let Ok(strings) = sections.strings(endian, bytes, link) else {
        return Vec::new();
    };
    entries
        .iter()
        .filter(|entry| entry.d_tag.get(endian) == object::elf::DT_NEEDED)
        .filter_map(|entry| {
            strings
                .get(u32::try_from(entry.d_val.get(endian)).ok()?)
                .ok()
        })
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

impl Facts {
    /// How the program is linked to the CUDA runtime, if that is known.
    pub fn runtime(&self) -> Option<Runtime> {
        match self {
            Facts::Script => None,
            Facts::Dynamic { runtime, .. } => *runtime,
        }
    }

    /// Whether the program is known to use OpenCL.
    pub fn opencl(&self) -> bool {
        matches!(self, Facts::Dynamic { opencl: true, .. })
    }

    /// Whether it may be: it is linked to OpenCL's loader, or is a script, or
    /// no CUDA program itself and may load or start anything.
    pub fn may_use_opencl(&self) -> bool {
        match self {
            Facts::Script => true,
            Facts::Dynamic {
                device_code,
                runtime,
                opencl,
                closed,
            } => *opencl || (!device_code && runtime.is_none() && !closed),
        }
    }

    /// Refuses what cannot work on this device.
    ///
    /// # Errors
    ///
    /// The program can have no device code, or its CUDA runtime cannot be
    /// replaced.
    pub fn check(&self, path: &Path, device: DeviceKind) -> Result<()> {
        let shown = path.display();
        if let Facts::Dynamic {
            device_code: false,
            runtime: None,
            closed: true,
            opencl: false,
        } = self
        {
            bail!(
                "{shown} is no CUDA or OpenCL program: it holds no device code, loads no library that could, and \
                 starts no other program"
            );
        }
        if device != DeviceKind::Gpu && self.runtime() == Some(Runtime::StaticStripped) {
            bail!(
                "{shown} is stripped and has the CUDA runtime linked into it, so only `--device gpu` can run it: the others cannot find the \
                 runtime's functions; build it with `nvcc -cudart shared`, or do not strip it"
            );
        }
        Ok(())
    }
}
