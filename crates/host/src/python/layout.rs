//! The structures of CPython that lead to the frames of a thread, by version.
//!
//! CPython 3.13 and later publish most of it: `_PyRuntime` begins with
//! `_Py_DebugOffsets`. For earlier versions, the table below holds the layout
//! of their headers on 64-bit machines.

/// Bytes from the start of each structure to its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// `_PyRuntimeState.interpreters.head`
    pub(super) interpreters: usize,
    /// `PyInterpreterState.next`
    pub(super) next_interpreter: usize,
    /// `PyInterpreterState.threads.head`
    pub(super) threads: usize,
    /// `PyThreadState.next`
    pub(super) next_thread: usize,
    /// `PyThreadState.thread_id`
    pub(super) thread_id: usize,
    /// What leads from the thread to its innermost frame: each but the last is
    /// a pointer to the structure that the next is in.
    pub(super) innermost: Innermost,
    pub(super) frame: Frame,
    pub(super) code: Code,
    /// `sizeof(PyASCIIObject)`; what follows in a compact string that is not
    /// ASCII, before its characters, is `wide` bytes more.
    pub(super) ascii: usize,
    pub(super) wide: usize,
}

/// From a `PyThreadState` to its innermost frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Innermost {
    /// A member.
    Direct(usize),
    /// `cframe`, and `current_frame` in that.
    CFrame(usize, usize),
}

/// A frame of the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) previous: usize,
    pub(super) code: usize,
    pub(super) at: usize,
    pub(super) place: Place,
    pub(super) entry: Entry,
}

/// What a frame says about where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// `f_lasti`, an `int`, in code units; 4 bytes further the line, if
    /// the frame is traced.
    Index,
    /// A pointer into the code.
    Pointer,
}

/// How to find the frame at which an evaluator that C called began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Each has its own.
    Each,
    /// `is_entry` of the frame is true.
    Flag(usize),
    /// The frame itself is none of the program's: `owner` is at least this.
    Owner(usize, u8),
}

/// `PyCodeObject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) filename: usize,
    /// `co_qualname`, or `co_name` where there is none.
    pub(super) name: usize,
    pub(super) lines: usize,
    pub(super) first_line: usize,
    /// `co_code_adaptive`; none where frames hold an index.
    pub(super) instructions: Option<usize>,
}

/// `FRAME_OWNED_BY_CSTACK` (3.12, 3.13) and, in 3.14,
/// `FRAME_OWNED_BY_INTERPRETER`; larger ones are no program's either.
const NOT_THE_PROGRAMS: u8 = 3;

const CODE_311: Code = Code {
    filename: 112,
    name: 128,
    lines: 136,
    first_line: 72,
    instructions: Some(184),
};

/// CPython 3.10, 3.11 and 3.12.
const TABLE: [(u32, Layout); 3] = [
    (
        0x030a,
        Layout {
            interpreters: 32,
            next_interpreter: 0,
            threads: 8,
            next_thread: 8,
            thread_id: 176,
            innermost: Innermost::Direct(24),
            frame: Frame {
                previous: 24,
                code: 32,
                at: 96,
                place: Place::Index,
                entry: Entry::Each,
            },
            code: Code {
                filename: 104,
                name: 112,
                lines: 120,
                first_line: 40,
                instructions: None,
            },
            ascii: 48,
            wide: 24,
        },
    ),
    (
        0x030b,
        Layout {
            interpreters: 40,
            next_interpreter: 0,
            threads: 16,
            next_thread: 8,
            thread_id: 152,
            innermost: Innermost::CFrame(56, 8),
            frame: Frame {
                previous: 48,
                code: 32,
                at: 56,
                place: Place::Pointer,
                entry: Entry::Flag(68),
            },
            code: CODE_311,
            ascii: 48,
            wide: 24,
        },
    ),
    (
        0x030c,
        Layout {
            interpreters: 40,
            next_interpreter: 0,
            threads: 72,
            next_thread: 8,
            thread_id: 136,
            innermost: Innermost::CFrame(56, 0),
            frame: Frame {
                previous: 8,
                code: 0,
                at: 56,
                place: Place::Pointer,
                entry: Entry::Owner(70, NOT_THE_PROGRAMS),
            },
            code: Code {
                first_line: 68,
                instructions: Some(192),
                ..CODE_311
            },
            ascii: 40,
            wide: 16,
        },
    ),
];

/// What `_PyRuntime` begins with from 3.13 on.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// Words of `_Py_DebugOffsets` that are read.
pub(super) const DEBUG_WORDS: usize = 96;

/// The layout of a version that does not publish it (`PY_VERSION_HEX >> 16`).
pub(super) fn of_version(version: u32) -> Option<Layout> {
    let row = TABLE.iter().find(|(known, _)| *known == version)?;
    Some(row.1)
}

/// The layout that `_Py_DebugOffsets` describes.
pub(super) fn of_debug_offsets(words: &[u64]) -> Option<Layout> {
    let word = |at: usize| {
        let value = usize::try_from(*words.get(at)?).ok()?;
        // No structure of CPython's is larger.
        (value < 1 << 20).then_some(value)
    };
    let version = u32::try_from(*words.get(1)?).ok()? >> 16;
    // (Free-threaded builds tag and defer what frames refer to.)
    if words.first() != Some(&COOKIE) || words.get(2) != Some(&0) {
        return None;
    }
    // Words of `interpreter_state`, `interpreter_frame` and `code_object`.
    let (interpreter, frame, code) = match version {
        0x030d => (13, 6, 10),
        0x030e => (16, 8, 11),
        _ => return None,
    };
    let runtime_at = 3;
    let interpreter_at = runtime_at + 3;
    let thread_at = interpreter_at + interpreter;
    let frame_at = thread_at + 9;
    let code_at = frame_at + frame;
    // Behind it: object 2, type 4, tuple 3, list 3, dictionary 3 (and a set's 4
    // in 3.14), float 2, long 3, bytes 3, then the string's.
    let text_at =
        code_at + code + 2 + 4 + 3 + 3 + if version == 0x030e { 4 } else { 0 } + 3 + 2 + 3 + 3;
    Some(Layout {
        interpreters: word(runtime_at + 2)?,
        next_interpreter: word(interpreter_at + 2)?,
        threads: word(interpreter_at + 3)?,
        next_thread: word(thread_at + 2)?,
        thread_id: word(thread_at + 5)?,
        innermost: Innermost::Direct(word(thread_at + 4)?),
        frame: Frame {
            previous: word(frame_at + 1)?,
            code: word(frame_at + 2)?,
            at: word(frame_at + 3)?,
            place: Place::Pointer,
            entry: Entry::Owner(word(frame_at + 5)?, NOT_THE_PROGRAMS),
        },
        code: Code {
            filename: word(code_at + 1)?,
            name: word(code_at + 3)?,
            lines: word(code_at + 4)?,
            first_line: word(code_at + 5)?,
            instructions: Some(word(code_at + 9)?),
        },
        ascii: word(text_at + 3)?,
        wide: 16,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `_Py_DebugOffsets` of a version holds, each word its own number
    /// but for the head.
    fn described(version: u64, free_threaded: u64) -> Vec<u64> {
        let mut words: Vec<u64> = (0..DEBUG_WORDS as u64).collect();
        words[..3].copy_from_slice(&[COOKIE, version << 16, free_threaded]);
        words
    }

    #[test]
    fn offsets_are_found_where_a_version_has_them() {
        let layout = of_debug_offsets(&described(0x030d, 0)).expect("3.13");
        assert_eq!((layout.interpreters, layout.threads), (5, 9));
        assert_eq!((layout.next_thread, layout.thread_id), (21, 24));
        assert_eq!(layout.innermost, Innermost::Direct(23));
        assert_eq!((layout.frame.code, layout.frame.at), (30, 31));
        assert_eq!((layout.code.filename, layout.code.lines), (35, 38));
        assert_eq!((layout.code.instructions, layout.ascii), (Some(43), 70));
        let layout = of_debug_offsets(&described(0x030e, 0)).expect("3.14");
        assert_eq!((layout.thread_id, layout.frame.code), (27, 33));
        assert_eq!((layout.code.filename, layout.ascii), (40, 80));
    }

    #[test]
    fn what_is_not_known_is_not_read() {
        assert_eq!(of_debug_offsets(&described(0x030d, 1)), None);
        assert_eq!(of_debug_offsets(&described(0x030f, 0)), None);
        assert_eq!(of_debug_offsets(&described(0x030d, 0)[..20]), None);
        let mut other = described(0x030d, 0);
        other[0] = 0;
        assert_eq!(of_debug_offsets(&other), None);
        let mut large = described(0x030d, 0);
        large[24] = u64::MAX;
        assert_eq!(of_debug_offsets(&large), None);
        assert_eq!(of_version(0x0309), None);
        assert!(of_version(0x030c).is_some());
    }
}
