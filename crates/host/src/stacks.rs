//! Host call stacks: cheap to capture, resolved only when one is reported.
//!
//! A stack is a list of return addresses. Frames of Ringfence itself, of the
//! CUDA runtime and of OpenCL's loader are cut off when it is resolved, so that the first frame
//! shown is the program's.

use crate::{python, unwound};
use model::HostFrame;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;

/// `None`: not captured.
pub type Stack = Option<Arc<Captured>>;

/// A call stack of one thread.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Captured {
    /// Return addresses, innermost first.
    addresses: Arc<[usize]>,
    /// Python's frames, innermost first; none in a program without Python.
    python: Box<[python::Frame]>,
}

/// Frames of Ringfence and the CUDA runtime that may lie between the program
/// and [`capture`]; captured in addition to the requested number.
const OWN_FRAMES: usize = 24;

/// Frames of the interpreter that may lie between two of Python's; they are
/// not shown.
const PER_PYTHON_FRAME: usize = 6;

/// The calling thread's stack, at most `callers` frames of the program.
#[inline(never)]
pub fn capture(callers: u32) -> Stack {
    if callers == 0 {
        return None;
    }
    let python = python::capture(callers as usize);
    let between = if python.is_empty() {
        1
    } else {
        PER_PYTHON_FRAME
    };
    let limit = callers as usize * between + OWN_FRAMES;
    Some(Arc::new(Captured {
        addresses: unwound::capture(limit),
        python: python.into(),
    }))
}

/// The frames of a stack with names and places, at most `callers`. `skip`: the
/// mangled name of a function that is not worth showing first (a kernel's host
/// stub, at its launch).
pub fn resolve(stack: &Stack, callers: u32, skip: Option<&str>) -> Vec<HostFrame> {
    let Some(captured) = stack else {
        return Vec::new();
    };
    let objects = Objects::of_this_process();
    let native = captured
        .addresses
        .iter()
        .map(|address| resolve_one(*address, &objects));
    let symbols: Vec<Symbol> = if captured.python.is_empty() {
        native.flatten().collect()
    } else {
        with_python(native.collect(), &captured.python)
    };
    let own = |symbol: &&Symbol| {
        is_own(symbol, objects.own.as_deref()) || skip.is_some_and(|skip| skip == symbol.mangled)
    };
    let leading = symbols.iter().take_while(own).count();
    // A stack of Ringfence's frames only is more useful than an empty one.
    let start = if leading == symbols.len() { 0 } else { leading };
    // The callers of main are not the program's. (A function of Python's of
    // that name is another one.)
    let called_main = |symbol: &Symbol| symbol.mangled == "main";
    let end = symbols.iter().skip(start).position(called_main);
    symbols
        .into_iter()
        .skip(start)
        .take(end.map_or(callers as usize, |main| (main + 1).min(callers as usize)))
        .map(|symbol| symbol.frame)
        .collect()
}

/// Puts Python's frames in the places of the evaluators that ran them, which
/// each run some, innermost first. The interpreter's other frames are left out.
fn with_python(native: Vec<Vec<Symbol>>, python: &[python::Frame]) -> Vec<Symbol> {
    let of_python = |frame: &python::Frame| Symbol {
        mangled: String::new(),
        frame: frame.resolve(),
    };
    let mut evaluated: VecDeque<&[python::Frame]> =
        python.split_inclusive(|frame| frame.is_outermost).collect();
    let mut symbols = Vec::new();
    for of_address in native {
        let is_main = of_address.iter().any(|symbol| symbol.mangled == "main");
        if is_main {
            // Of evaluators that were not recognized by their names.
            let frames = std::mem::take(&mut evaluated).into_iter().flatten();
            symbols.extend(frames.map(of_python));
        }
        if of_address.iter().any(is_evaluator) {
            let frames = evaluated.pop_front().unwrap_or_default();
            symbols.extend(frames.iter().map(of_python));
        } else if of_address.iter().any(is_of_interpreter) {
            if is_main {
                break;
            }
        } else {
            symbols.extend(of_address);
        }
    }
    symbols.extend(evaluated.into_iter().flatten().map(of_python));
    symbols
}

/// Whether a frame is of the function that runs Python's.
fn is_evaluator(symbol: &Symbol) -> bool {
    let rest = symbol.mangled.strip_prefix("_PyEval_EvalFrameDefault");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        // One function an instruction, which end in jumps to each other.
        || symbol.mangled.starts_with("_TAIL_CALL_")
}

/// Whether a frame is of the interpreter's own code.
fn is_of_interpreter(symbol: &Symbol) -> bool {
    let object = symbol.frame.object.as_deref().unwrap_or_default();
    let file = object.rsplit('/').next().unwrap_or_default();
    let is_api = ["Py", "_Py"].iter().any(|prefix| {
        let rest = symbol.mangled.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase() || c == '_'))
    });
    is_api || file.starts_with("python") || file.starts_with("libpython")
}

/// A frame, and its function's linker symbol.
struct Symbol {
    mangled: String,
    frame: HostFrame,
}

fn resolve_one(address: usize, objects: &Objects) -> Vec<Symbol> {
    let object = objects.find(address).map(str::to_string);
    let mut symbols = Vec::new();
    backtrace::resolve(address as *mut c_void, |symbol| {
        let name = symbol.name();
        let mangled = name
            .as_ref()
            .map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned())
            .unwrap_or_default();
        let function = match name {
            None => format!("{address:#x}"),
            Some(_) if mangled.starts_with("_Z") && !mangled.starts_with("_ZN") => {
                report::demangle(&mangled)
            }
            // Rust's older names begin like C++'s nested ones.
            Some(name) => {
                let rust = format!("{name:#}");
                if rust == mangled {
                    report::demangle(&mangled)
                } else {
                    rust
                }
            }
        };
        symbols.push(Symbol {
            frame: HostFrame {
                function,
                file: symbol.filename().map(|file| file.display().to_string()),
                line: symbol.lineno(),
                object: object.clone(),
            },
            mangled,
        });
    });
    if symbols.is_empty() {
        let function = format!("{address:#x}");
        let frame = HostFrame {
            function,
            file: None,
            line: None,
            object,
        };
        symbols.push(Symbol {
            mangled: String::new(),
            frame,
        });
    }
    symbols
}

/// Whether a leading frame belongs to Ringfence or to the CUDA runtime: shared,
/// linked into the program, or inlined into it from CUDA's headers.
fn is_own(symbol: &Symbol, own: Option<&str>) -> bool {
    let object = symbol.frame.object.as_deref().unwrap_or_default();
    let file = object.rsplit('/').next().unwrap_or_default();
    let libraries = [
        "libcudart.so",
        "libcuda.so",
        "libringfence.so",
        "libringfence_opencl.so",
        "libOpenCL.so",
    ];
    if own == Some(object) || libraries.iter().any(|name| file.starts_with(name)) {
        return true;
    }
    let name = unqualified(&symbol.mangled);
    let api = |prefix: &str| {
        let rest = name.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    };
    api("cu")
        || api("cuda")
        || api("__cuda")
        || name.starts_with("__device_stub__")
        // The functions of ringfence.h.
        || name.starts_with("ringfence_")
        || ["libcudart_static", "_ZN6cudart"]
            .iter()
            .any(|prefix| symbol.mangled.starts_with(prefix))
}

/// The identifier in the mangled name of a function outside namespaces
/// (`_Z10cudaMallocIfE…` and, static, `_ZL10…`: Itanium C++ ABI, 5.1.2); the
/// name itself if it is not mangled so.
fn unqualified(mangled: &str) -> &str {
    let Some(encoded) = mangled
        .strip_prefix("_ZL")
        .or_else(|| mangled.strip_prefix("_Z"))
    else {
        return mangled;
    };
    let digits = encoded.len()
        - encoded
            .trim_start_matches(|digit: char| digit.is_ascii_digit())
            .len();
    let length: Option<usize> = encoded[..digits].parse().ok();
    length
        .and_then(|length| encoded.get(digits..digits.checked_add(length)?))
        .unwrap_or(mangled)
}

/// Which file is mapped where.
struct Objects {
    mapped: Vec<(usize, usize, String)>,
    /// The shared library that holds this code, if it is one.
    own: Option<String>,
}

impl Objects {
    fn of_this_process() -> Objects {
        // Without /proc the frames have no object; nothing else is lost.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let mapped = maps.lines().filter_map(parse_mapping).collect();
        let mut objects = Objects { mapped, own: None };
        let here = capture as *const () as usize;
        objects.own = objects
            .find(here)
            .filter(|path| path.contains(".so"))
            .map(str::to_string);
        objects
    }

    fn find(&self, address: usize) -> Option<&str> {
        let holds = |(start, end, _): &&(usize, usize, String)| (*start..*end).contains(&address);
        self.mapped
            .iter()
            .find(holds)
            .map(|(_, _, path)| path.as_str())
    }
}

/// A line of /proc/self/maps that names a file: `start-end perms offset dev
/// inode path` (proc(5)).
fn parse_mapping(line: &str) -> Option<(usize, usize, String)> {
    let path = &line[line.find('/')?..];
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?, path.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_program_function() -> Stack {
        std::hint::black_box(capture(8))
    }

    #[test]
    fn a_stack_names_its_callers_with_lines() {
        let frames = resolve(&a_program_function(), 64, None);
        let caller = frames
            .iter()
            .find(|frame| frame.function.contains("a_program_function"))
            .expect("named");
        assert!(
            caller
                .file
                .as_ref()
                .is_some_and(|file| file.ends_with("stacks.rs")),
            "{caller:?}"
        );
        assert!(caller.line.is_some() && caller.object.is_some());
        assert!(resolve(&capture(3), 3, None).len() <= 3);
        assert!(capture(0).is_none());
    }

    #[test]
    fn frames_of_the_cuda_runtime_are_told_from_the_programs() {
        let symbol = |mangled: &str, object: &str| Symbol {
            mangled: mangled.into(),
            frame: HostFrame {
                function: String::new(),
                file: None,
                line: None,
                object: Some(object.into()),
            },
        };
        for (name, object) in [
            ("anything", "/x/libringfence.so"),
            ("", "/usr/lib/libcudart.so.12.9.79"),
            ("cudaMalloc", "/home/me/app"),
            ("_Z10cudaMallocIfE9cudaErrorPPT_m", "/home/me/app"),
            ("_ZL25__cudaLaunchKernel_helperP9CUkern_st", "/home/me/app"),
            ("_Z29__device_stub__Z5saxpyifPKfPfifPKfPf", "/home/me/app"),
            ("cuLaunchKernel", "/home/me/app"),
            ("_ZL20ringfence_pool_allocPKvS0_m", "/home/me/app"),
        ] {
            assert!(
                is_own(&symbol(name, object), Some("/x/libringfence.so")),
                "{name}"
            );
        }
        for name in [
            "main",
            "custom",
            "cudaize",
            "_Z5saxpyifPKfPf",
            "_Z99cudaMalloc",
            "_Z",
            "_ZN3app4mainEv",
            "",
        ] {
            assert!(
                !is_own(&symbol(name, "/app"), Some("/x/libringfence.so")),
                "{name}"
            );
        }
    }

    #[test]
    fn pythons_frames_stand_where_evaluators_ran_them() {
        let symbol = |mangled: &str, object: &str| {
            vec![Symbol {
                mangled: mangled.into(),
                frame: HostFrame {
                    function: mangled.into(),
                    file: None,
                    line: None,
                    object: Some(object.into()),
                },
            }]
        };
        let native = || {
            vec![
                symbol("cuMemAlloc_v2", "/x/libringfence.so"),
                symbol("ffi_call", "/lib/libffi.so.8"),
                symbol("_PyEval_EvalFrameDefault", "/lib/libpython3.12.so.1.0"),
                symbol("method_vectorcall", "/lib/libpython3.12.so.1.0"),
                symbol("_ZN2at5applyEv", "/lib/libtorch.so"),
                symbol("PyObject_Call", "/opt/app"),
                symbol("_PyEval_EvalFrameDefault.cold", "/opt/app"),
                symbol("embed", "/opt/app"),
                symbol("main", "/opt/app"),
            ]
        };
        let names = |python: &[(&str, bool)]| {
            let python: Vec<python::Frame> = python
                .iter()
                .map(|&(name, is_outermost)| python::Frame::named(name, is_outermost))
                .collect();
            let symbols = with_python(native(), &python);
            let names: Vec<String> = symbols.into_iter().map(|s| s.frame.function).collect();
            names.join(" ")
        };
        assert_eq!(
            names(&[("f", false), ("g", true), ("h", true)]),
            "cuMemAlloc_v2 ffi_call f g _ZN2at5applyEv h embed main"
        );
        // More evaluators than can be recognized, and fewer.
        assert_eq!(
            names(&[("f", true), ("g", true), ("h", true)]),
            "cuMemAlloc_v2 ffi_call f _ZN2at5applyEv g embed h main"
        );
        assert_eq!(
            names(&[("f", false)]),
            "cuMemAlloc_v2 ffi_call f _ZN2at5applyEv embed main"
        );
    }

    #[test]
    fn a_function_that_is_to_be_skipped_is_not_shown_first() {
        let stack = a_program_function();
        let first = |frames: Vec<HostFrame>| frames.into_iter().next().map(|frame| frame.function);
        let objects = Objects::of_this_process();
        let all: Vec<Symbol> = stack
            .iter()
            .flat_map(|captured| captured.addresses.iter())
            .flat_map(|address| resolve_one(*address, &objects))
            .collect();
        let shown = first(resolve(&stack, 64, None));
        assert_ne!(first(resolve(&stack, 64, Some(&all[0].mangled))), shown);
    }

    #[test]
    fn mapping_lines_are_read() {
        let line = "7f00-7f10 r-xp 00000000 08:01 123                    /lib/a b.so.1";
        assert_eq!(
            parse_mapping(line),
            Some((0x7f00, 0x7f10, "/lib/a b.so.1".into()))
        );
        assert_eq!(
            parse_mapping("7f00-7f10 rw-p 00000000 00:00 0 [stack]"),
            None
        );
    }
}
