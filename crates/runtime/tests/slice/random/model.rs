//! What a random kernel does, thread by thread: which accesses leave their
//! object, and what memory holds afterwards.

use model::Rule;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Threads of the largest launch.
pub const MOST_THREADS: u32 = 96;

/// A launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks.
    pub grid: u32,
    /// Threads of each.
    pub block: u32,
}

impl Shape {
    pub fn threads(self) -> u32 {
        self.grid * self.block
    }
}

/// Something that accesses are checked against. What is read is never written, what
/// is written always gets the same byte, and what is added to is only ever
/// added to, so that the order of threads does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// A buffer that is read.
    Read,
    /// A second one.
    ReadToo,
    /// A buffer that is written.
    Write,
    /// A buffer that is added to.
    Atomic,
    /// A `.global` variable that is read.
    Variable,
    /// A `.shared` array that is read.
    SharedRead,
    /// A `.shared` array that is written.
    SharedWrite,
    /// A `.shared` array that is added to.
    SharedAtomic,
    /// Dynamic shared memory, read.
    Dynamic,
    /// An object of the local frame that is read, between two others.
    Local,
    /// The last object of the local frame, which is written.
    LocalWrite,
    /// A `.const` array.
    Const,
    /// A parameter of the kernel.
    Parameter,
}

impl Object {
    pub const ALL: [Object; 13] = [
        Object::Read,
        Object::ReadToo,
        Object::Write,
        Object::Atomic,
        Object::Variable,
        Object::SharedRead,
        Object::SharedWrite,
        Object::SharedAtomic,
        Object::Dynamic,
        Object::Local,
        Object::LocalWrite,
        Object::Const,
        Object::Parameter,
    ];

    pub fn space(self) -> &'static str {
        match self {
            Object::Read | Object::ReadToo | Object::Write | Object::Atomic | Object::Variable => {
                "global"
            }
            Object::SharedRead | Object::SharedWrite | Object::SharedAtomic | Object::Dynamic => {
                "shared"
            }
            Object::Local | Object::LocalWrite => "local",
            Object::Const => "const",
            Object::Parameter => "param",
        }
    }

    pub fn action(self) -> Action {
        match self {
            Object::Write | Object::SharedWrite | Object::LocalWrite => Action::Write,
            Object::Atomic | Object::SharedAtomic => Action::Atomic,
            _ => Action::Read,
        }
    }

    /// Whether leaving it is found, so that such accesses may be made.
    pub fn is_checked(self) -> bool {
        static SPACES: LazyLock<String> = LazyLock::new(|| {
            std::env::var("RINGFENCE_RANDOM_SPACES")
                .unwrap_or_else(|_| "global,shared,local,const,param".into())
        });
        SPACES.split(',').any(|space| space == self.space())
    }

    /// The rule that an access outside of it breaks.
    pub fn rule(self) -> Rule {
        match (self.space(), self.action()) {
            ("shared", Action::Read) => Rule::SharedOutOfBoundsRead,
            ("shared", Action::Write) => Rule::SharedOutOfBoundsWrite,
            ("shared", Action::Atomic) => Rule::SharedOutOfBoundsAtomic,
            ("local", Action::Read) => Rule::LocalOutOfBoundsRead,
            ("local", Action::Write) => Rule::LocalOutOfBoundsWrite,
            ("local", Action::Atomic) => Rule::LocalOutOfBoundsAtomic,
            ("const", _) => Rule::ConstantOutOfBoundsRead,
            ("param", _) => Rule::ParameterOutOfBoundsRead,
            (_, Action::Read) => Rule::GlobalOutOfBoundsRead,
            (_, Action::Write) => Rule::GlobalOutOfBoundsWrite,
            (_, Action::Atomic) => Rule::GlobalOutOfBoundsAtomic,
        }
    }

    /// The byte that it holds at `offset` before the kernel runs.
    pub fn initial(self, offset: u64) -> u8 {
        match self.action() {
            Action::Read => (offset.wrapping_mul(37) + 11 * (self as u64 + 1)) as u8,
            Action::Write | Action::Atomic => 0,
        }
    }
}

/// What an access does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Read,
    Write,
    Atomic,
}

/// The byte that is written wherever something is written.
pub const WRITTEN: u8 = 0xa5;

/// How a kernel comes by the address of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A parameter, or the name of a variable.
    Direct,
    /// Eight bytes of a struct that is a parameter.
    Struct,
    /// A table in global memory.
    Table,
    /// Passed on through shared memory.
    ThroughShared,
    /// [`Object::Read`] or [`Object::ReadToo`], by the parity of the thread.
    Selected,
    /// Handed to a function that makes the access.
    Function,
}

/// What varies from thread to thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    Zero,
    /// Number in the block.
    Thread,
    /// Number in the grid.
    Global,
    /// Low bits of the number in the grid.
    Masked(u32),
    /// Number in the grid, some bits turned.
    Turned(u32),
    /// From a table in memory.
    Loaded,
}

/// Which threads make the access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    All,
    /// Number in the grid below, by a predicate on the access.
    Below(u32),
    /// Number in the grid below, by a branch around it.
    BranchBelow(u32),
    /// Number in the grid equal.
    Only(u32),
    /// Odd numbers in the block.
    Odd,
}

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    Once,
    /// A loop that multiplies its counter; step in bytes.
    Loop(u32, i64),
    /// A loop that moves the pointer itself.
    Walk(u32, i64),
}

/// One access, or two that may share a check.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub object: Object,
    pub root: Root,
    pub variable: Variable,
    pub guard: Guard,
    pub repeat: Repeat,
    /// Elements of a vector, 1 for none.
    pub lanes: u32,
    /// Bytes of an element.
    pub element: u32,
    /// Bytes that the offset grows by with the variable.
    pub scale: i64,
    /// Bytes added to it.
    pub constant: i64,
    /// Whether the constant stands in the instruction.
    pub folded: bool,
    /// Whether the instruction names no space.
    pub generic: bool,
    /// Distance of a second access through the same register.
    pub second: Option<i64>,
}

impl Access {
    pub fn width(&self) -> i64 {
        i64::from(self.lanes * self.element)
    }

    /// The object that thread `number` means.
    pub fn object_of(&self, number: u32) -> Object {
        match self.root {
            Root::Selected if number % 2 == 1 => Object::ReadToo,
            Root::Selected => Object::Read,
            _ => self.object,
        }
    }

    fn runs(&self, number: u32, shape: Shape) -> bool {
        match self.guard {
            Guard::All => true,
            Guard::Below(limit) | Guard::BranchBelow(limit) => number < limit,
            Guard::Only(one) => number == one,
            Guard::Odd => number % shape.block % 2 == 1,
        }
    }

    /// Offsets that a thread accesses, in order: of the first and of the
    /// second access in turn.
    pub fn offsets(&self, number: u32, loaded: &[u32], shape: Shape) -> Vec<(usize, i64)> {
        if !self.runs(number, shape) {
            return Vec::new();
        }
        let variable = match self.variable {
            Variable::Zero => 0,
            Variable::Thread => number % shape.block,
            Variable::Global => number,
            Variable::Masked(mask) => number & mask,
            Variable::Turned(bits) => number ^ bits,
            Variable::Loaded => loaded[number as usize],
        };
        let first = i64::from(variable) * self.scale + self.constant;
        let (count, step) = match self.repeat {
            Repeat::Once => (1, 0),
            Repeat::Loop(count, step) | Repeat::Walk(count, step) => (count, step),
        };
        (0..i64::from(count))
            .flat_map(|turn| {
                let at = first + turn * step;
                std::iter::once((0, at)).chain(self.second.map(|distance| (1, at + distance)))
            })
            .collect()
    }
}

/// A kernel to be made, launched and predicted.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub shape: Shape,
    /// Bytes of each object, in the order of [`Object::ALL`].
    pub sizes: [u64; Object::ALL.len()],
    /// What [`Variable::Loaded`] stands for, by number in the grid.
    pub loaded: Vec<u32>,
    pub accesses: Vec<Access>,
}

/// What one site may be reported for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violation {
    /// Threads that leave the object there, by number in the grid.
    pub threads: Vec<u32>,
    /// The object of each, and the offset of the access.
    pub places: Vec<(Object, i64)>,
}

/// What is known of a byte after the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Byte {
    Is(u8),
    /// It shares a check with an access that is wrong, and may be either.
    Either(u8, u8),
}

/// What must come of a kernel.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// By access and which of its two.
    pub violations: BTreeMap<(usize, usize), Violation>,
    /// What each thread adds up from what it reads; `None` where that shares
    /// a check with an access that is wrong.
    pub sums: Vec<Option<u32>>,
    /// [`Object::Write`], and [`Object::SharedWrite`] of each block.
    pub written: Vec<Vec<Byte>>,
    /// [`Object::LocalWrite`] of each thread.
    pub local: Vec<Vec<Byte>>,
    /// Words of [`Object::Atomic`], and of [`Object::SharedAtomic`] of each
    /// block.
    pub counts: Vec<Vec<u32>>,
}

impl Kernel {
    pub fn size(&self, object: Object) -> u64 {
        self.sizes[object as usize]
    }

    fn is_inside(&self, access: &Access, object: Object, offset: i64) -> bool {
        offset >= 0 && offset + access.width() <= self.size(object) as i64
    }

    /// Leaves out accesses that break what the test relies on: a thread is
    /// wrong at one access at most, since it leaves one record; and outside
    /// of what is checked, nothing is wrong.
    pub fn sift(&mut self) {
        let mut wrong: Vec<Option<usize>> = vec![None; self.shape.threads() as usize];
        let mut kept: Vec<Access> = Vec::new();
        for access in std::mem::take(&mut self.accesses) {
            let index = kept.len();
            let broken: Vec<u32> = (0..self.shape.threads())
                .filter(|number| {
                    let object = access.object_of(*number);
                    let offsets = access.offsets(*number, &self.loaded, self.shape);
                    !offsets
                        .iter()
                        .all(|(_, at)| self.is_inside(&access, object, *at))
                })
                .collect();
            let both = broken.iter().any(|number| {
                let object = access.object_of(*number);
                let mut which: Vec<usize> = access
                    .offsets(*number, &self.loaded, self.shape)
                    .iter()
                    .filter(|(_, at)| !self.is_inside(&access, object, *at))
                    .map(|(which, _)| *which)
                    .collect();
                which.dedup();
                which.len() > 1
            });
            let taken = broken
                .iter()
                .any(|number| wrong[*number as usize].is_some());
            if taken || both || (!broken.is_empty() && !access.object.is_checked()) {
                continue;
            }
            for number in broken {
                wrong[number as usize] = Some(index);
            }
            kept.push(access);
        }
        self.accesses = kept;
    }

    pub fn predict(&self) -> Prediction {
        let fresh = |object| vec![Byte::Is(0); self.size(object) as usize];
        let mut prediction = Prediction {
            violations: BTreeMap::new(),
            sums: vec![Some(0); self.shape.threads() as usize],
            written: std::iter::once(fresh(Object::Write))
                .chain((0..self.shape.grid).map(|_| fresh(Object::SharedWrite)))
                .collect(),
            local: vec![fresh(Object::LocalWrite); self.shape.threads() as usize],
            counts: std::iter::once(Object::Atomic)
                .chain((0..self.shape.grid).map(|_| Object::SharedAtomic))
                .map(|object| vec![0; self.size(object) as usize / 4])
                .collect(),
        };
        for (index, access) in self.accesses.iter().enumerate() {
            for number in 0..self.shape.threads() {
                self.follow(index, access, number, &mut prediction);
            }
        }
        for (sum, local) in prediction.sums.iter_mut().zip(&prediction.local) {
            *sum = sum.and_then(|sum| add_up(sum, local));
        }
        prediction
    }

    fn follow(&self, index: usize, access: &Access, number: u32, prediction: &mut Prediction) {
        let object = access.object_of(number);
        let offsets = access.offsets(number, &self.loaded, self.shape);
        let clean = offsets
            .iter()
            .all(|(_, at)| self.is_inside(access, object, *at));
        // Which accesses share a check is the pass's own affair.
        let blurred = !clean && access.second.is_some();
        for (which, at) in offsets {
            let inside = self.is_inside(access, object, at);
            if !inside {
                let violation = prediction.violations.entry((index, which)).or_default();
                violation.threads.push(number);
                violation.places.push((object, at));
            }
            match object.action() {
                Action::Read => {
                    let sum = &mut prediction.sums[number as usize];
                    *sum = sum
                        .filter(|_| !blurred)
                        .map(|sum| self.read(access, object, at, inside, sum));
                }
                Action::Atomic if inside => {
                    let block = match object {
                        Object::Atomic => 0,
                        _ => 1 + number / self.shape.block,
                    };
                    prediction.counts[block as usize][at as usize / 4] += 1;
                }
                Action::Write if inside => {
                    let memory = match object {
                        Object::Write => &mut prediction.written[0],
                        Object::LocalWrite => &mut prediction.local[number as usize],
                        _ => &mut prediction.written[1 + (number / self.shape.block) as usize],
                    };
                    let range = at as usize..(at + access.width()) as usize;
                    for byte in &mut memory[range] {
                        *byte = match (*byte, blurred) {
                            (Byte::Is(old), true) if old != WRITTEN => Byte::Either(old, WRITTEN),
                            (Byte::Either(..), true) => *byte,
                            _ => Byte::Is(WRITTEN),
                        };
                    }
                }
                Action::Atomic | Action::Write => {}
            }
        }
    }

    /// The sum after a read. What is wrong reads zero.
    fn read(&self, access: &Access, object: Object, at: i64, inside: bool, sum: u32) -> u32 {
        (0..i64::from(access.lanes)).fold(sum, |sum, lane| {
            let from = at + lane * i64::from(access.element);
            let value = (0..i64::from(access.element))
                .rev()
                .fold(0u64, |value, byte| {
                    let byte = if inside {
                        object.initial((from + byte) as u64)
                    } else {
                        0
                    };
                    value << 8 | u64::from(byte)
                });
            sum.wrapping_mul(31)
                .wrapping_add(value as u32)
                .wrapping_add((value >> 32) as u32)
        })
    }
}

/// The sum after all bytes of what a thread wrote, too.
fn add_up(sum: u32, bytes: &[Byte]) -> Option<u32> {
    bytes.iter().try_fold(sum, |sum, byte| match byte {
        Byte::Is(value) => Some(sum.wrapping_mul(31).wrapping_add(u32::from(*value))),
        Byte::Either(..) => None,
    })
}
