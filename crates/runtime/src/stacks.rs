//! Host call stacks: cheap to take, resolved only when one is reported.
//!
//! A stack is a list of return addresses. Frames of Ringfence itself and of
//! the CUDA runtime are cut off when it is resolved, so that the first frame
//! shown is the program's.

use model::HostFrame;
use std::ffi::c_void;
use std::sync::Arc;

/// Return addresses, innermost first. `None`: not taken.
pub(crate) type Stack = Option<Arc<[usize]>>;

/// Frames of Ringfence and the CUDA runtime that may lie between the program
/// and [`capture`]; taken in addition to what the user asked for.
const OWN_FRAMES: usize = 24;

/// The calling thread's stack, at most `callers` frames of the program.
#[inline(never)]
pub(crate) fn capture(callers: u32) -> Stack {
    if callers == 0 {
        return None;
    }
    let limit = callers as usize + OWN_FRAMES;
    let mut addresses: smallvec::SmallVec<[usize; 48]> = smallvec::SmallVec::new();
    backtrace::trace(|frame| {
        addresses.push(frame.ip() as usize);
        addresses.len() < limit
    });
    Some(addresses.as_slice().into())
}

/// The frames of a stack with names and places, at most `callers`.
pub(crate) fn resolve(stack: &Stack, callers: u32) -> Vec<HostFrame> {
    let Some(addresses) = stack else {
        return Vec::new();
    };
    let objects = Objects::of_this_process();
    let frames: Vec<HostFrame> = addresses
        .iter()
        .flat_map(|address| resolve_one(*address, &objects))
        .collect();
    let own = frames
        .iter()
        .take_while(|frame| is_own(frame, objects.own.as_deref()))
        .count();
    // A stack of nothing but own frames says more than an empty one.
    let start = if own == frames.len() { 0 } else { own };
    let mut frames: Vec<HostFrame> = frames
        .into_iter()
        .skip(start)
        .take(callers as usize)
        .collect();
    // What called main says nothing about the program.
    if let Some(main) = frames.iter().position(|frame| frame.function == "main") {
        frames.truncate(main + 1);
    }
    frames
}

fn resolve_one(address: usize, objects: &Objects) -> Vec<HostFrame> {
    let object = objects.find(address).map(str::to_string);
    let mut frames = Vec::new();
    backtrace::resolve(address as *mut c_void, |symbol| {
        let function = symbol
            .name()
            .map_or_else(|| format!("{address:#x}"), |name| format!("{name:#}"));
        frames.push(HostFrame {
            function,
            file: symbol.filename().map(|file| file.display().to_string()),
            line: symbol.lineno(),
            object: object.clone(),
        });
    });
    if frames.is_empty() {
        let function = format!("{address:#x}");
        frames.push(HostFrame {
            function,
            file: None,
            line: None,
            object,
        });
    }
    frames
}

/// Whether a leading frame belongs to Ringfence or to the CUDA runtime, shared
/// or linked into the program.
fn is_own(frame: &HostFrame, own: Option<&str>) -> bool {
    let object = frame.object.as_deref().unwrap_or_default();
    let file = object.rsplit('/').next().unwrap_or_default();
    if own == Some(object)
        || ["libcudart.so", "libcuda.so", "libringfence.so"]
            .iter()
            .any(|name| file.starts_with(name))
    {
        return true;
    }
    let name = frame.function.as_str();
    let api = |prefix: &str| {
        let rest = name.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    };
    api("cu")
        || api("cuda")
        || api("__cuda")
        || ["libcudart_static", "cudart::"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
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
        let frames = resolve(&a_program_function(), 64);
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
        assert!(resolve(&capture(3), 3).len() <= 3);
        assert!(capture(0).is_none());
    }

    #[test]
    fn frames_of_the_cuda_runtime_are_told_from_the_programs() {
        let frame = |function: &str, object: &str| HostFrame {
            function: function.into(),
            file: None,
            line: None,
            object: Some(object.into()),
        };
        for own in [
            frame("anything", "/x/libringfence.so"),
            frame("0x1234", "/usr/lib/libcudart.so.12.9.79"),
            frame("cudaMalloc", "/home/me/app"),
            frame("__cudaLaunchKernel", "/home/me/app"),
            frame("cuLaunchKernel", "/home/me/app"),
        ] {
            assert!(is_own(&own, Some("/x/libringfence.so")), "{own:?}");
        }
        for program in [
            frame("main", "/home/me/app"),
            frame("custom", "/home/me/app"),
            frame("cudaize", "/app"),
        ] {
            assert!(!is_own(&program, Some("/x/libringfence.so")), "{program:?}");
        }
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
