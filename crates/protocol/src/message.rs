//! The messages. What is added or changed here is a new [`VERSION`].

use serde::{Deserialize, Serialize};
use strum::EnumCount;

/// First bytes of a [`Hello`].
pub const MAGIC: [u8; 8] = *b"ringfenc";

/// The version of the messages. Both sides have the same one, or do not talk.
pub const VERSION: u32 = 7;

/// Bytes of a tenant's name at most.
pub const NAME_BYTES: usize = 64;

/// What a tenant begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`MAGIC`]
    pub magic: [u8; 8],
    /// [`VERSION`]
    pub version: u32,
    /// Its name, for people.
    pub name: String,
    /// Bytes of device memory that it needs; 0 for what the manager gives.
    pub memory: u64,
}

/// What the manager answers to a [`Hello`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// First address of the partition.
    pub base: u64,
    /// Bytes of addresses.
    pub size: u64,
    /// Bytes of memory that the tenant may allocate.
    pub memory: u64,
    /// The device.
    pub device: DeviceFacts,
}

/// What a tenant asks about the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Its name.
    pub name: String,
    /// The driver's version, as cuDriverGetVersion gives it.
    pub version: i32,
    /// Its identifier.
    pub uuid: [u8; 16],
    /// Attributes.
    pub attributes: Vec<Attribute>,
}

/// A number by the number of a `CUdevice_attribute` or `CUfunction_attribute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// Which.
    pub attribute: u32,
    /// Its value.
    pub value: i32,
}

/// Rows in device memory; memory in one piece is one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// First byte.
    pub address: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Bytes of a row.
    pub width: u64,
    /// How many.
    pub height: u64,
}

impl Place {
    /// Memory in one piece.
    pub fn linear(address: u64, size: u64) -> Place {
        Place {
            address,
            pitch: size,
            width: size,
            height: 1,
        }
    }
}

/// What a tenant asks for. Streams, events, modules and kernels are numbers
/// that the manager gave to this tenant; stream 0 is its default stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, EnumCount)]
pub enum Request {
    /// The first one.
    Hello(Hello),
    /// More of a module's code: the payload. [`Reply::Done`]
    Upload,
    /// Loads what was uploaded: a fat binary or PTX text. [`Reply::Loaded`], or
    /// [`Reply::Busy`] while it is compiled.
    Load,
    /// Unloads a module. [`Reply::Done`], [`Reply::Busy`]
    Unload {
        /// The module.
        module: u32,
    },
    /// Sets an attribute of a kernel. [`Reply::Attributes`]
    SetAttribute {
        /// The kernel.
        kernel: u32,
        /// What.
        attribute: Attribute,
    },
    /// Blocks of a kernel that a multiprocessor holds. [`Reply::Value`]
    Occupancy {
        /// The kernel.
        kernel: u32,
        /// Threads of a block.
        threads: i32,
        /// Dynamic shared memory of a block, in bytes.
        shared: u32,
    },
    /// Puts a launch into a stream. [`Reply::Done`]
    Launch {
        /// The kernel.
        kernel: u32,
        /// The stream.
        stream: u32,
        /// Blocks.
        grid: [u32; 3],
        /// Threads of a block.
        block: [u32; 3],
        /// Dynamic shared memory, in bytes.
        shared: u32,
        /// All blocks are resident together.
        is_cooperative: bool,
        /// The block of parameters.
        parameters: Vec<u8>,
    },
    /// Allocates memory. [`Reply::Address`], or [`Reply::Busy`] while memory is
    /// being freed behind work ([`Request::FreeBehind`]).
    Allocate {
        /// Bytes.
        size: u64,
    },
    /// Frees memory. [`Reply::Done`], [`Reply::Busy`]
    Free {
        /// First byte.
        address: u64,
    },
    /// How much memory is left. [`Reply::Memory`]
    MemoryInfo,
    /// Copies the payload to device memory when the stream is idle.
    /// [`Reply::Done`], [`Reply::Busy`]
    Write {
        /// The stream.
        stream: u32,
        /// Where to.
        to: Place,
    },
    /// Copies from device memory when the stream is idle. [`Reply::Bytes`],
    /// [`Reply::Busy`]
    Read {
        /// The stream.
        stream: u32,
        /// Where from.
        from: Place,
    },
    /// Puts a copy within device memory into a stream. [`Reply::Done`]
    Copy {
        /// The stream.
        stream: u32,
        /// Where to.
        to: Place,
        /// Where from.
        from: Place,
    },
    /// Puts a memset into a stream. [`Reply::Done`]
    Fill {
        /// The stream.
        stream: u32,
        /// Where.
        place: Place,
        /// Bytes of the value: 1, 2 or 4.
        element: u32,
        /// The value.
        value: u32,
    },
    /// Makes a stream. [`Reply::Number`]
    StreamCreate {
        /// Ordered with the default stream.
        is_blocking: bool,
    },
    /// Ends a stream. [`Reply::Done`]
    StreamDestroy {
        /// The stream.
        stream: u32,
    },
    /// Whether a stream is idle. [`Reply::Done`], [`Reply::Busy`]
    StreamQuery {
        /// The stream.
        stream: u32,
    },
    /// A stream waits for an event. [`Reply::Done`]
    StreamWait {
        /// The stream.
        stream: u32,
        /// The event.
        event: u32,
    },
    /// Whether all streams are idle. [`Reply::Done`], [`Reply::Busy`]
    Synchronize,
    /// Gives back all that the tenant has, and forgets that its kernels failed.
    /// [`Reply::Done`], [`Reply::Busy`]
    Reset,
    /// Makes an event. [`Reply::Number`]
    EventCreate {
        /// It is used for times.
        is_timed: bool,
    },
    /// Ends an event. [`Reply::Done`]
    EventDestroy {
        /// The event.
        event: u32,
    },
    /// Records an event behind the work of a stream. [`Reply::Done`]
    EventRecord {
        /// The event.
        event: u32,
        /// The stream.
        stream: u32,
    },
    /// Whether an event is over. [`Reply::Done`], [`Reply::Busy`]
    EventQuery {
        /// The event.
        event: u32,
    },
    /// Milliseconds between events. [`Reply::Milliseconds`]
    EventElapsed {
        /// The earlier one.
        start: u32,
        /// The later one.
        end: u32,
    },
    /// As [`Request::Write`], from the staging area. [`Reply::Done`],
    /// [`Reply::Busy`]
    WriteStaged {
        /// The stream.
        stream: u32,
        /// Where to.
        to: Place,
        /// First byte in the staging area, a multiple of [`ring::ALIGN`].
        offset: u64,
    },
    /// As [`Request::Read`], into the staging area. [`Reply::Done`],
    /// [`Reply::Busy`]
    ReadStaged {
        /// The stream.
        stream: u32,
        /// Where from.
        from: Place,
        /// As for [`Request::WriteStaged`].
        offset: u64,
    },
    /// Puts a copy from the staging area into a stream. [`Reply::Done`], [`Reply::Busy`]
    WriteBehind {
        /// The stream.
        stream: u32,
        /// Where to.
        to: Place,
        /// First byte in the staging area. All bytes are in what is copied through
        /// ([`COPIED_THROUGH`](crate::COPIED_THROUGH)), or in one unit of the pinned
        /// memory behind that ([`PINNED_UNIT`](crate::PINNED_UNIT)).
        offset: u64,
    },
    /// Puts a copy to the staging area into a stream. [`Reply::Done`], [`Reply::Busy`]
    ReadBehind {
        /// The stream.
        stream: u32,
        /// Where from.
        from: Place,
        /// As for [`Request::WriteBehind`].
        offset: u64,
    },
    /// What kernels have printed and was not read yet, also those that failed.
    /// [`Reply::Printed`], [`Reply::Failed`]
    Printed,
    /// How many bytes something may have. [`Reply::Size`]
    GetLimit {
        /// What.
        limit: Limit,
    },
    /// Sets it, before kernels use it. [`Reply::Done`]
    SetLimit {
        /// What.
        limit: Limit,
        /// Bytes.
        bytes: u64,
    },
    /// Frees memory when the work that is in a stream is over. Until then nobody
    /// is given it. [`Reply::Done`]
    FreeBehind {
        /// First byte.
        address: u64,
        /// The stream.
        stream: u32,
    },
}

/// What kernels use of a tenant's memory without asking for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// The buffer of `printf`.
    Print,
    /// The heap of `malloc`.
    Heap,
}

impl Limit {
    /// What a tenant has that asks for nothing: what drivers begin with (H200,
    /// driver 580).
    pub fn default_bytes(self) -> u64 {
        match self {
            Limit::Print => 7 << 20,
            Limit::Heap => 8 << 20,
        }
    }
}

/// What is said of records that kernels printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unprinted {
    /// There are more that can be read now.
    pub has_more: bool,
    /// No kernel runs that may print more.
    pub is_idle: bool,
    /// Calls of `printf` for which there was no room since the buffer was last
    /// empty, as the tenant's kernels counted them.
    pub lost: u64,
    /// Bytes that are no record were dropped.
    pub is_garbage: bool,
}

/// The number of the default stream, which every tenant has.
pub const DEFAULT_STREAM: u32 = 0;

/// How many requests without a reply a tenant sends at most for one stream
/// before it asks for one of that stream with a reply. The manager has room for
/// as many behind one that it has accepted, so that it never has to wait.
pub const QUIET_IN_A_ROW: u32 = 64;

impl Request {
    /// How many types of requests there are.
    pub const TYPES: usize = <Request as EnumCount>::COUNT;

    /// Whether it may be sent without a reply.
    pub fn may_be_quiet(&self) -> bool {
        matches!(
            self,
            Request::Launch { .. }
                | Request::Write { .. }
                | Request::WriteBehind { .. }
                | Request::ReadBehind { .. }
                | Request::Copy { .. }
                | Request::Fill { .. }
                | Request::StreamWait { .. }
                | Request::EventRecord { .. }
                | Request::FreeBehind { .. }
        )
    }

    /// Whether its reply tells that an earlier request without a reply has
    /// failed. Those that only make or end something do not, so that they are
    /// always done.
    pub fn tells_of_failures(&self) -> bool {
        self.may_be_quiet()
            || matches!(
                self,
                Request::Read { .. }
                    | Request::WriteStaged { .. }
                    | Request::ReadStaged { .. }
                    | Request::StreamQuery { .. }
                    | Request::EventQuery { .. }
                    | Request::Synchronize
            )
    }

    /// The stream that it puts work into, or asks about.
    pub fn stream(&self) -> Option<u32> {
        match self {
            Request::Launch { stream, .. }
            | Request::Write { stream, .. }
            | Request::Read { stream, .. }
            | Request::WriteStaged { stream, .. }
            | Request::ReadStaged { stream, .. }
            | Request::WriteBehind { stream, .. }
            | Request::ReadBehind { stream, .. }
            | Request::Copy { stream, .. }
            | Request::Fill { stream, .. }
            | Request::StreamQuery { stream }
            | Request::StreamWait { stream, .. }
            | Request::EventRecord { stream, .. }
            | Request::FreeBehind { stream, .. } => Some(*stream),
            _ => None,
        }
    }
}

/// A kernel of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its number.
    pub kernel: u32,
    /// Its name.
    pub name: String,
    /// Offset and bytes of each parameter in the block.
    pub parameters: Vec<(u32, u32)>,
    /// Bytes of the block.
    pub parameter_bytes: u32,
    /// Attributes.
    pub attributes: Vec<Attribute>,
}

/// A variable of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// First byte, in the partition.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

/// A module that was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// Its number.
    pub module: u32,
    /// Its kernels.
    pub kernels: Vec<Kernel>,
    /// Its variables in global memory.
    pub variables: Vec<Variable>,
    /// Its kernels may print.
    pub prints: bool,
}

/// What the manager answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Hello`].
    Welcome(Welcome),
    /// The manager does not take this tenant, or no longer; the connection
    /// ends. Why, for people.
    Refused(String),
    /// It is done.
    Done,
    /// Work of the tenant must be over first: ask again.
    Busy,
    /// It is not done: a `CUresult`, and why, for people; may be empty.
    Failed {
        /// The error.
        code: u32,
        /// What and why.
        message: String,
    },
    /// A new stream or event.
    Number(u32),
    /// An address.
    Address(u64),
    /// A number.
    Value(i32),
    /// Attributes of a kernel.
    Attributes(Vec<Attribute>),
    /// Bytes of memory that are free, and all.
    Memory {
        /// Free.
        free: u64,
        /// All.
        total: u64,
    },
    /// The payload.
    Bytes,
    /// A time.
    Milliseconds(f32),
    /// A module.
    Loaded(Loaded),
    /// The payload: records of `printf`, as kernels wrote them.
    Printed(Unprinted),
    /// Bytes.
    Size(u64),
}
