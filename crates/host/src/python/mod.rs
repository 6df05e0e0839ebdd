//! Frames of Python programs, read out of CPython's own memory: what shows
//! where a kernel was launched is the Python code, not the interpreter's C
//! frames.
//!
//! Nothing of the interpreter is called, and no lock of its is taken: the
//! frames of a thread that is inside a call of C do not change. What may
//! change meanwhile (the list of threads, a layout that is not what its version
//! promises) can be wrong, so every read is one that cannot fault, every walk
//! has an end, and a code object counts as one only if its type says so.

mod interpreter;
mod layout;
mod lines;
mod memory;

use interpreter::Interpreter;
use layout::{Entry, Innermost, Place};
use memory::Block;
use model::HostFrame;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

/// A frame when a stack was captured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Frame {
    code: Arc<Code>,
    /// Code unit, from the first instruction.
    unit: Option<usize>,
    /// The line, where the frame has it.
    line: Option<u32>,
    /// The evaluator that runs this frame began with it.
    pub(crate) is_outermost: bool,
}

impl Frame {
    #[cfg(test)]
    pub(crate) fn named(name: &str, is_outermost: bool) -> Frame {
        let code = Code {
            identity: [0; 4],
            function: name.into(),
            file: "program.py".into(),
            first_line: 1,
            lines: Vec::new(),
            format: lines::Format::Pairs,
        };
        Frame {
            code: Arc::new(code),
            unit: None,
            line: None,
            is_outermost,
        }
    }

    pub(crate) fn resolve(&self) -> HostFrame {
        let Code {
            function,
            file,
            format,
            lines,
            first_line,
            ..
        } = &*self.code;
        let line = self.line.or_else(|| {
            let unit = self.unit?;
            lines::line_of(*format, lines, *first_line, unit)
        });
        HostFrame {
            function: function.clone(),
            file: Some(file.clone()),
            line: line.or(Some(*first_line)),
            object: None,
        }
    }
}

/// A copy of a code object's data: the object may be freed before the stack is
/// shown.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Code {
    /// Words of the object that distinguish it from a later one at the same
    /// address.
    identity: [usize; 4],
    function: String,
    file: String,
    first_line: u32,
    lines: Vec<u8>,
    format: lines::Format,
}

/// The greatest number of frames, threads and interpreters that are followed:
/// memory with unexpected content may hold a cycle.
const MOST: usize = 4096;
/// Most bytes of a name or table.
const MOST_BYTES: usize = 1 << 20;

static FOUND: OnceLock<Interpreter> = OnceLock::new();

thread_local! {
    /// The thread's `PyThreadState`, if it has one.
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// The process's interpreter. Libraries may be loaded at any time, so the
/// search is repeated at every power of two of captures.
fn interpreter() -> Option<&'static Interpreter> {
    static CAPTURES: AtomicU64 = AtomicU64::new(0);
    static SEEN: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    if let Some(found) = FOUND.get() {
        return Some(found);
    }
    let number = CAPTURES.fetch_add(1, Ordering::Relaxed) + 1;
    if !number.is_power_of_two() {
        return None;
    }
    let found = interpreter::find(&mut SEEN.lock())?;
    Some(FOUND.get_or_init(|| found))
}

/// Python's frames of the calling thread, innermost first, at most `limit`.
pub(crate) fn capture(limit: usize) -> Vec<Frame> {
    let Some(interpreter) = interpreter() else {
        return Vec::new();
    };
    let Some(thread) = interpreter.thread() else {
        return Vec::new();
    };
    let mut frames = Vec::new();
    interpreter.frames(thread, limit, &mut frames);
    frames
}

impl Interpreter {
    /// The calling thread's `PyThreadState`.
    fn thread(&self) -> Option<usize> {
        let own = nix::sys::pthread::pthread_self() as usize;
        let is_own = |thread: usize| memory::word(thread + self.layout.thread_id) == Some(own);
        let known = THREAD.get();
        if known != 0 && is_own(known) {
            return Some(known);
        }
        let mut interpreter = memory::word(self.runtime + self.layout.interpreters)?;
        for _ in 0..MOST {
            if interpreter == 0 {
                break;
            }
            let mut thread = memory::word(interpreter.checked_add(self.layout.threads)?)?;
            for _ in 0..MOST {
                if thread == 0 {
                    break;
                }
                if is_own(thread) {
                    THREAD.set(thread);
                    return Some(thread);
                }
                thread = memory::word(thread.checked_add(self.layout.next_thread)?)?;
            }
            interpreter = memory::word(interpreter.checked_add(self.layout.next_interpreter)?)?;
        }
        None
    }

    fn frames(&self, thread: usize, limit: usize, out: &mut Vec<Frame>) -> Option<()> {
        let layout = self.layout.frame;
        let mut frame = match self.layout.innermost {
            Innermost::Direct(at) => memory::word(thread.checked_add(at)?)?,
            Innermost::CFrame(at, current) => {
                let cframe = memory::word(thread.checked_add(at)?)?;
                memory::word(cframe.checked_add(current)?)?
            }
        };
        let entry = match layout.entry {
            Entry::Flag(at) | Entry::Owner(at, _) => at,
            Entry::Each => 0,
        };
        let members = [layout.previous, layout.code, layout.at, entry];
        let mut bytes = vec![0; members.into_iter().max()? + size_of::<usize>()];
        for _ in 0..MOST {
            if frame == 0 || out.len() >= limit || !memory::read(frame, &mut bytes) {
                break;
            }
            let block = Block(&bytes);
            let is_programs = match layout.entry {
                Entry::Owner(at, least) => block.byte(at)? < least,
                Entry::Flag(_) | Entry::Each => true,
            };
            if is_programs {
                // The lowest bits may be a tag.
                let object = block.word(layout.code)? & !7;
                if let Some(code) = self.code(object) {
                    let (unit, line) = self.place(object, &block);
                    let is_outermost = match layout.entry {
                        Entry::Each => true,
                        Entry::Flag(at) => block.byte(at)? != 0,
                        Entry::Owner(..) => false,
                    };
                    out.push(Frame {
                        code,
                        unit,
                        line,
                        is_outermost,
                    });
                }
            } else if let Some(last) = out.last_mut() {
                last.is_outermost = true;
            }
            frame = block.word(layout.previous)?;
        }
        Some(())
    }

    /// Where a frame is: its code unit, and its line if it says so.
    fn place(&self, code: usize, frame: &Block<'_>) -> (Option<usize>, Option<u32>) {
        let layout = self.layout.frame;
        match (layout.place, self.layout.code.instructions) {
            (Place::Pointer, Some(instructions)) => {
                let at = frame.word(layout.at).unwrap_or(0);
                let first = code.wrapping_add(instructions);
                (at.checked_sub(first).map(|bytes| bytes / 2), None)
            }
            _ => {
                let unit = frame.int(layout.at);
                let line = frame.int(layout.at + 4).filter(|line| *line > 0);
                (
                    unit.and_then(|unit| usize::try_from(unit).ok()),
                    line.and_then(|line| u32::try_from(line).ok()),
                )
            }
        }
    }

    /// What a code object holds; from the cache if it is the one of before.
    fn code(&self, object: usize) -> Option<Arc<Code>> {
        static CODES: LazyLock<Mutex<HashMap<usize, Arc<Code>>>> = LazyLock::new(Mutex::default);
        let layout = self.layout.code;
        let members = [
            layout.filename,
            layout.name,
            layout.lines,
            layout.first_line,
        ];
        let bytes = memory::bytes(object, members.into_iter().max()? + size_of::<usize>())?;
        let block = Block(&bytes);
        if block.word(OB_TYPE)? != self.code_type {
            return None;
        }
        let first_line = u32::try_from(block.int(layout.first_line)?).ok()?;
        let identity = [
            block.word(layout.filename)?,
            block.word(layout.name)?,
            block.word(layout.lines)?,
            first_line as usize,
        ];
        if let Some(known) = CODES.lock().get(&object)
            && known.identity == identity
        {
            return Some(known.clone());
        }
        let [file, name, lines, _] = identity;
        let code = Arc::new(Code {
            identity,
            function: self.text(name)?,
            file: self.text(file)?,
            first_line,
            lines: byte_string(lines)?,
            format: match self.layout.frame.place {
                Place::Index => lines::Format::Pairs,
                Place::Pointer => lines::Format::Locations,
            },
        });
        let mut codes = CODES.lock();
        if codes.len() >= MOST_CODES {
            codes.clear();
        }
        codes.insert(object, code.clone());
        Some(code)
    }

    /// A `str`.
    fn text(&self, object: usize) -> Option<String> {
        let head = memory::bytes(object, STATE + 4)?;
        let head = Block(&head);
        let state = head.int(STATE)?;
        let length = head.word(LENGTH).filter(|length| *length < MOST_BYTES)?;
        let (kind, is_compact, is_ascii) = ((state >> 2) & 7, state & 32 != 0, state & 64 != 0);
        if !is_compact {
            return None;
        }
        let at = object.checked_add(self.layout.ascii)?;
        if is_ascii {
            return String::from_utf8(memory::bytes(at, length)?).ok();
        }
        let width = usize::try_from(kind)
            .ok()
            .filter(|k| matches!(k, 1 | 2 | 4))?;
        let bytes = memory::bytes(at.checked_add(self.layout.wide)?, length * width)?;
        let characters = bytes.chunks_exact(width).map(|bytes| {
            let mut value = [0; 4];
            value[..width].copy_from_slice(bytes);
            char::from_u32(u32::from_le_bytes(value)).unwrap_or(char::REPLACEMENT_CHARACTER)
        });
        Some(characters.collect())
    }
}

/// Code objects that are remembered.
const MOST_CODES: usize = 1 << 16;
/// `PyObject.ob_type`, `PyVarObject.ob_size`, `PyBytesObject.ob_sval`.
const OB_TYPE: usize = 8;
const OB_SIZE: usize = 16;
const OB_SVAL: usize = 32;
/// `PyASCIIObject.length` and `.state`.
const LENGTH: usize = 16;
const STATE: usize = 32;

/// A `bytes`.
fn byte_string(object: usize) -> Option<Vec<u8>> {
    let length = memory::word(object.checked_add(OB_SIZE)?)?;
    if length >= MOST_BYTES {
        return None;
    }
    memory::bytes(object.checked_add(OB_SVAL)?, length)
}
