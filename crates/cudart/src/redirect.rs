//! Takes over the static runtime of an executable, and of libraries that are
//! loaded with it: writes a jump over each of its entry points, so that the
//! program calls this crate instead.
//!
//! nvcc links the runtime statically by default, into shared libraries too, and
//! NVIDIA's code refuses a driver that is not NVIDIA's. A file that was not
//! stripped names the
//! entry points in its symbol table: those of the generated list of exported
//! names, and no others, are patched. The program's own functions (host stubs,
//! `__cudaRegisterAll`, templates such as `cudaMalloc<float>`) have names that
//! are not in that list.
//!
//! Must run before the program's constructors, while there is one thread.

use crate::error::say;
use crate::table::{Version, lookup_version};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use std::collections::BTreeMap;
use std::io;

/// Bytes of `jmp rel32`, which is what an entry point must have room for.
pub(crate) const JUMP: usize = 5;
/// Bytes of a trampoline: `jmp *0(%rip)`, the address, padding.
pub(crate) const TRAMPOLINE: usize = 16;
/// Where to search for free addresses for the trampolines, which `jmp rel32`
/// must reach.
const REACH: u64 = 1 << 30;

/// What [`redirect_static`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirected {
    /// The executable or its libraries hold the static runtime; this many
    /// functions of it now lead here.
    Functions {
        /// How many.
        count: usize,
        /// Which version of the runtime it is; the executable's if it has one.
        version: Version,
    },
    /// A CUDA program that uses the shared runtime or none at all.
    NoStaticRuntime,
    /// No CUDA program: nothing in it was made by nvcc.
    NotCuda,
}

/// Why the static runtime could not be taken over. Fragments that fit "failed
/// to redirect the static CUDA runtime: …".
#[derive(Debug, thiserror::Error)]
pub enum RedirectError {
    /// The symbol table was stripped.
    #[error(
        "the program contains the static CUDA runtime but was stripped of its symbols, so its entry points cannot be \
         found; link it with `nvcc -cudart shared`, or do not strip it"
    )]
    Stripped,
    /// The executable cannot be read.
    #[error("cannot read /proc/self/exe: {0}")]
    Read(#[source] io::Error),
    /// It is no 64-bit ELF file that can be understood.
    #[error("cannot parse the executable: {0}; link it with `nvcc -cudart shared`")]
    Parse(#[from] object::Error),
    /// A function with too little room for a jump.
    #[error(
        "{name} has only {space} bytes, too few for a jump; link the program with `nvcc -cudart shared`"
    )]
    TooSmall {
        /// The function.
        name: String,
        /// Bytes up to the next function.
        space: u64,
    },
    /// Memory does not hold what the file says.
    #[error("{name} in memory differs from the file; link the program with `nvcc -cudart shared`")]
    Differs {
        /// The function.
        name: String,
    },
    /// No room for the trampolines near the program.
    #[error("no free memory near the program for {bytes} bytes of jumps: {source}")]
    Room {
        /// Bytes needed.
        bytes: usize,
        /// What the last attempt said.
        source: io::Error,
    },
    /// The trouble is in a library that the program is linked with.
    #[error("in {library}: {source}")]
    Library {
        /// Its path.
        library: String,
        /// What it is.
        source: Box<RedirectError>,
    },
    /// The loader is not as debuggers expect it.
    #[error(
        "the loader does not tell of libraries that are opened later; link those that use CUDA with `nvcc -cudart shared`"
    )]
    Loader,
    /// The system forbids changing code.
    #[error(
        "the system does not allow changing the program's code: {0}; link it with `nvcc -cudart shared`"
    )]
    Protect(#[source] io::Error),
}

/// An entry point to patch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    name: &'static str,
    /// Address as linked, before the load bias.
    address: u64,
    /// What the file has there.
    original: [u8; JUMP],
}

/// What the file says.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Patch {
        version: Version,
        targets: Vec<Target>,
    },
    NoStaticRuntime,
    NotCuda,
}

/// Redirects the static runtime of the running executable and of the libraries
/// that the loader brought with it.
pub fn redirect_static() -> Result<Redirected, RedirectError> {
    let mut result = Redirected::NotCuda;
    for object in loaded_objects() {
        let done = match (redirect_object(&object), &object.library) {
            (Ok(done), _) => done,
            // A library may be there and not be used; its calls fail by themselves.
            (Err(error @ RedirectError::Stripped), Some(library)) => {
                say(&format!("CUDA calls of {library} will fail: {error}"));
                Redirected::NotCuda
            }
            (Err(source), Some(library)) => {
                return Err(RedirectError::Library {
                    library: library.clone(),
                    source: Box::new(source),
                });
            }
            (Err(error), None) => return Err(error),
        };
        result = match (result, done) {
            (
                Redirected::Functions { count, version },
                Redirected::Functions { count: more, .. },
            ) => Redirected::Functions {
                count: count + more,
                version,
            },
            (Redirected::Functions { .. }, _)
            | (Redirected::NoStaticRuntime, Redirected::NotCuda) => result,
            (_, done) => done,
        };
    }
    Ok(result)
}

pub(crate) fn redirect_object(object: &LoadedObject) -> Result<Redirected, RedirectError> {
    let path = object.library.as_deref().unwrap_or("/proc/self/exe");
    let file = match (std::fs::File::open(path), &object.library) {
        (Ok(file), _) => file,
        // The kernel's own object (vdso) has a name and no file.
        (Err(_), Some(_)) => return Ok(Redirected::NotCuda),
        (Err(error), None) => return Err(RedirectError::Read(error)),
    };
    // SAFETY: a file that is being executed or is mapped by the loader must not
    // be changed in place by anyone: the running code itself would change.
    let file = unsafe { memmap2::Mmap::map(&file) }.map_err(RedirectError::Read)?;
    match plan(&file)? {
        Plan::NotCuda => Ok(Redirected::NotCuda),
        Plan::NoStaticRuntime => Ok(Redirected::NoStaticRuntime),
        Plan::Patch { version, targets } => {
            patch(object.bias, version, &targets)?;
            Ok(Redirected::Functions {
                count: targets.len(),
                version,
            })
        }
    }
}

fn plan(file: &[u8]) -> Result<Plan, RedirectError> {
    let elf: ElfFile64<'_> = ElfFile64::parse(file)?;
    let made_by_nvcc = elf
        .sections()
        .filter_map(|section| section.name().ok())
        .any(|name| name == ".nv_fatbin" || name == ".nvFatBinSegment");
    let mut functions: BTreeMap<u64, ()> = BTreeMap::new();
    let mut named: Vec<(&str, u64)> = Vec::new();
    for symbol in elf
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
    {
        functions.insert(symbol.address(), ());
        if let Ok(name) = symbol.name()
            && (name.starts_with("cuda") || name.starts_with("__cuda"))
        {
            named.push((name, symbol.address()));
        }
    }
    let has = |wanted: &str| named.iter().any(|(name, _)| *name == wanted);
    if !has("__cudaRegisterFatBinary") {
        if !made_by_nvcc {
            return Ok(Plan::NotCuda);
        }
        let shared = elf.dynamic_symbols().any(|symbol| {
            symbol.is_undefined()
                && symbol
                    .name()
                    .is_ok_and(|name| name == "__cudaRegisterFatBinary")
        });
        return if shared || !functions.is_empty() {
            Ok(Plan::NoStaticRuntime)
        } else {
            Err(RedirectError::Stripped)
        };
    }
    // CUDA 13 dropped this name.
    let version = if has("cudaGetDeviceProperties_v2") {
        Version::Twelve
    } else {
        Version::Thirteen
    };
    let mut targets = Vec::new();
    for (name, address) in named {
        let Ok(index) = version.exports().binary_search(&name) else {
            continue;
        };
        let end = functions
            .range(address + 1..)
            .next()
            .map(|(address, ())| *address);
        let space = end.map_or(u64::MAX, |end| end - address);
        if space < JUMP as u64 {
            return Err(RedirectError::TooSmall {
                name: name.to_string(),
                space,
            });
        }
        let original = bytes_at(&elf, file, address).ok_or_else(|| RedirectError::Differs {
            name: name.to_string(),
        })?;
        targets.push(Target {
            name: version.exports()[index],
            address,
            original,
        });
    }
    targets.sort_by(|a, b| (a.address, a.name).cmp(&(b.address, b.name)));
    targets.dedup();
    Ok(Plan::Patch { version, targets })
}

/// What the file maps at an address.
fn bytes_at(elf: &ElfFile64<'_>, file: &[u8], address: u64) -> Option<[u8; JUMP]> {
    let endian = elf.endian();
    let headers = elf.elf_header().program_headers(endian, file).ok()?;
    headers
        .iter()
        .filter(|header| header.p_type(endian) == object::elf::PT_LOAD)
        .find_map(|header| {
            let offset = address.checked_sub(header.p_vaddr(endian))?;
            let data = header.data(endian, file).ok()?;
            data.get(usize::try_from(offset).ok()?..)?
                .get(..JUMP)?
                .try_into()
                .ok()
        })
}

/// An object that the loader mapped.
pub(crate) struct LoadedObject {
    /// A library's path; `None` for the executable.
    pub(crate) library: Option<String>,
    /// What the loader added to the file's addresses.
    pub(crate) bias: u64,
}

/// The executable, then its libraries, in the loader's order.
pub(crate) fn loaded_objects() -> Vec<LoadedObject> {
    unsafe extern "C" fn add(
        info: *mut libc::dl_phdr_info,
        _: usize,
        all: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a valid description whose name is a C
        // string, and `all` is the local below, which outlives the iteration.
        let (all, info) = unsafe { (&mut *all.cast::<Vec<LoadedObject>>(), &*info) };
        // SAFETY: as above.
        let name = unsafe { std::ffi::CStr::from_ptr(info.dlpi_name) };
        // The executable comes first (dl_iterate_phdr(3)).
        let library = (!all.is_empty()).then(|| name.to_string_lossy().into_owned());
        all.push(LoadedObject {
            library,
            bias: info.dlpi_addr,
        });
        0
    }
    let mut all = Vec::new();
    // SAFETY: the callback has the demanded signature.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut all).cast()) };
    all
}

fn patch(bias: u64, version: Version, targets: &[Target]) -> Result<(), RedirectError> {
    let (Some(lowest), Some(highest)) = (targets.first(), targets.last()) else {
        return Ok(());
    };
    let (lowest, highest) = (bias + lowest.address, bias + highest.address);
    let page = page_size();
    let start = lowest & !(page - 1);
    let end = (highest + JUMP as u64).next_multiple_of(page);

    for target in targets {
        // SAFETY: the address is in a loaded segment of this executable (found
        // in its program headers), which stays mapped and readable.
        let now = unsafe { ((bias + target.address) as *const [u8; JUMP]).read_unaligned() };
        if now != target.original {
            return Err(RedirectError::Differs {
                name: target.name.to_string(),
            });
        }
    }

    let bytes = (targets.len() * TRAMPOLINE).next_multiple_of(page as usize);
    let trampolines = map_near(start, end, bytes)?;
    protect(start, end, libc::PROT_READ | libc::PROT_WRITE)?;
    for (index, target) in targets.iter().enumerate() {
        let Some(function) = lookup_version(version, target.name) else {
            continue;
        };
        let from = bias + target.address;
        let to = trampolines + (index * TRAMPOLINE) as u64;
        // SAFETY: `to` lies in the pages just mapped for this many
        // trampolines; `from` in pages just made writable, with room for a
        // jump (checked by `plan`), and no other thread runs yet.
        unsafe {
            (to as *mut [u8; TRAMPOLINE]).write_unaligned(trampoline(function as u64));
            (from as *mut [u8; JUMP]).write_unaligned(jump(from, to));
        }
    }
    protect(start, end, libc::PROT_READ | libc::PROT_EXEC)?;
    protect(
        trampolines,
        trampolines + bytes as u64,
        libc::PROT_READ | libc::PROT_EXEC,
    )
}

/// `jmp *0(%rip)` and the address.
pub(crate) fn trampoline(function: u64) -> [u8; TRAMPOLINE] {
    let mut code = [0xcc; TRAMPOLINE];
    code[..6].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
    code[6..14].copy_from_slice(&function.to_le_bytes());
    code
}

/// `jmp rel32`. The distance fits: see [`map_near`].
pub(crate) fn jump(from: u64, to: u64) -> [u8; JUMP] {
    let distance = to.wrapping_sub(from + JUMP as u64) as i64 as i32;
    let mut code = [0xe9, 0, 0, 0, 0];
    code[1..].copy_from_slice(&distance.to_le_bytes());
    code
}

/// Writable pages within reach of `start..end`: below the program if possible,
/// since its heap grows above it.
pub(crate) fn map_near(start: u64, end: u64, bytes: usize) -> Result<u64, RedirectError> {
    const STEP: u64 = 1 << 20;
    let size = bytes as u64;
    let below = (1..REACH / STEP)
        .map_while(|step| start.checked_sub(step * STEP + size))
        .take_while(|at| *at >= 1 << 16);
    let above = (1..REACH / STEP).map(|step| end + step * STEP);
    let mut last = io::Error::from_raw_os_error(libc::ENOMEM);
    for at in below.chain(above) {
        let at = at & !(page_size() - 1);
        // SAFETY: MAP_FIXED_NOREPLACE maps only where nothing is mapped.
        let mapped = unsafe {
            libc::mmap(
                at as *mut libc::c_void,
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            last = io::Error::last_os_error();
            continue;
        }
        if mapped as u64 == at {
            return Ok(at);
        }
        // A kernel before 4.17 takes the address for a hint. SAFETY: unmaps
        // what was just mapped and is not in use.
        unsafe { libc::munmap(mapped, bytes) };
    }
    Err(RedirectError::Room {
        bytes,
        source: last,
    })
}

pub(crate) fn protect(start: u64, end: u64, protection: i32) -> Result<(), RedirectError> {
    // SAFETY: whole pages, either the program's code, which no one runs while
    // it is writable (one thread, and this code is in another object), or the
    // trampolines.
    match unsafe {
        libc::mprotect(
            start as *mut libc::c_void,
            (end - start) as usize,
            protection,
        )
    } {
        0 => Ok(()),
        _ => Err(RedirectError::Protect(io::Error::last_os_error())),
    }
}

pub(crate) fn page_size() -> u64 {
    // SAFETY: sysconf has no preconditions.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_reach_both_ways() {
        assert_eq!(jump(0x1000, 0x1005), [0xe9, 0, 0, 0, 0]);
        assert_eq!(jump(0x1000, 0x1000), [0xe9, 0xfb, 0xff, 0xff, 0xff]);
        assert_eq!(
            jump(0x5000_0000, 0x1000_0000),
            [0xe9, 0xfb, 0xff, 0xff, 0xbf]
        );
        let code = trampoline(0x1122_3344_5566_7788);
        assert_eq!(code[..8], [0xff, 0x25, 0, 0, 0, 0, 0x88, 0x77]);
    }

    #[test]
    fn this_test_is_no_cuda_program() {
        assert_eq!(redirect_static().unwrap(), Redirected::NotCuda);
    }

    #[test]
    fn trampolines_are_within_reach() {
        let here = trampolines_are_within_reach as *const () as u64;
        let start = here & !(page_size() - 1);
        let at = map_near(start, start + page_size(), 8192).unwrap();
        assert!(at.abs_diff(here) < 2 * REACH);
        // SAFETY: mapped by the line above for this test alone.
        assert_eq!(unsafe { libc::munmap(at as *mut libc::c_void, 8192) }, 0);
    }
}
