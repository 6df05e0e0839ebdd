//! A memory error, as data. Text, JSON and exit codes are made from this.

use crate::{AccessKind, Allocation, DeviceAddress, SourceLocation, Space};
use serde::{Deserialize, Serialize};

/// The stable name of a kind of error. The kebab-case form is API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// A read outside the allocation that the pointer came from.
    GlobalOutOfBoundsRead,
    /// A write outside the allocation that the pointer came from.
    GlobalOutOfBoundsWrite,
    /// An atomic outside the allocation that the pointer came from.
    GlobalOutOfBoundsAtomic,
    /// A read outside the shared array that the address came from.
    SharedOutOfBoundsRead,
    /// A write outside the shared array that the address came from.
    SharedOutOfBoundsWrite,
    /// An atomic outside the shared array that the address came from.
    SharedOutOfBoundsAtomic,
    /// A read outside the local object that the address came from.
    LocalOutOfBoundsRead,
    /// A write outside the local object that the address came from.
    LocalOutOfBoundsWrite,
    /// An atomic outside the local object that the address came from.
    LocalOutOfBoundsAtomic,
    /// A read outside the `__constant__` variable that the address came from.
    ConstantOutOfBoundsRead,
    /// A read outside the kernel parameter that the address came from.
    ParameterOutOfBoundsRead,
    /// A read outside the field, row or declared region that the address came
    /// from, but inside its allocation.
    IntraAllocationOutOfBoundsRead,
    /// A write outside the field, row or declared region that the address came
    /// from, but inside its allocation.
    IntraAllocationOutOfBoundsWrite,
    /// An atomic outside the field, row or declared region that the address came
    /// from, but inside its allocation.
    IntraAllocationOutOfBoundsAtomic,
    /// An access whose address is no multiple of what the instruction needs.
    MisalignedAccess,
    /// An access through a pointer that points into no allocation at all
    /// (null, wild, or a host address that the device cannot reach).
    InvalidPointer,
    /// An access, or a copy, through a pointer into memory that was freed.
    UseAfterFree,
    /// An access to bytes of a live buffer that the program has declared not to be
    /// accessed (`ringfence_poison`, or a pool's memory that is not handed out).
    UseAfterPoison,
    /// An access to a local object whose function returned or whose scope ended.
    UseAfterScope,
    /// An access to stream-ordered memory that is not ordered after its
    /// allocation.
    UseBeforeAllocation,
    /// An access to stream-ordered memory that is not ordered before its free.
    StreamOrderRace,
    /// Memory freed a second time, by the host or by a kernel.
    DoubleFree,
    /// A free of something that is no allocation's start, or by the wrong call.
    InvalidFree,
    /// Memory that the program never freed (`--leak-check`).
    MemoryLeak,
    /// A copy by the host that reads outside an allocation.
    CopyOutOfBoundsRead,
    /// A copy or set by the host that writes outside an allocation.
    CopyOutOfBoundsWrite,
    /// Bytes beside a buffer that nothing may write were found overwritten
    /// after a kernel, or after a call by the host.
    CanaryOverwritten,
    /// The device stopped a kernel: an illegal address, a trap, a failed
    /// assertion, a stack overflow.
    KernelFailed,
}

impl Rule {
    /// Every rule, in the order of the declaration.
    pub const ALL: &'static [Rule] = &[
        Rule::GlobalOutOfBoundsRead,
        Rule::GlobalOutOfBoundsWrite,
        Rule::GlobalOutOfBoundsAtomic,
        Rule::SharedOutOfBoundsRead,
        Rule::SharedOutOfBoundsWrite,
        Rule::SharedOutOfBoundsAtomic,
        Rule::LocalOutOfBoundsRead,
        Rule::LocalOutOfBoundsWrite,
        Rule::LocalOutOfBoundsAtomic,
        Rule::ConstantOutOfBoundsRead,
        Rule::ParameterOutOfBoundsRead,
        Rule::IntraAllocationOutOfBoundsRead,
        Rule::IntraAllocationOutOfBoundsWrite,
        Rule::IntraAllocationOutOfBoundsAtomic,
        Rule::MisalignedAccess,
        Rule::InvalidPointer,
        Rule::UseAfterFree,
        Rule::UseAfterPoison,
        Rule::UseAfterScope,
        Rule::UseBeforeAllocation,
        Rule::StreamOrderRace,
        Rule::DoubleFree,
        Rule::InvalidFree,
        Rule::MemoryLeak,
        Rule::CopyOutOfBoundsRead,
        Rule::CopyOutOfBoundsWrite,
        Rule::CanaryOverwritten,
        Rule::KernelFailed,
    ];

    /// The rule's id in reports, JSON and suppressions.
    pub fn id(self) -> &'static str {
        match self {
            Rule::GlobalOutOfBoundsRead => "global-out-of-bounds-read",
            Rule::GlobalOutOfBoundsWrite => "global-out-of-bounds-write",
            Rule::GlobalOutOfBoundsAtomic => "global-out-of-bounds-atomic",
            Rule::SharedOutOfBoundsRead => "shared-out-of-bounds-read",
            Rule::SharedOutOfBoundsWrite => "shared-out-of-bounds-write",
            Rule::SharedOutOfBoundsAtomic => "shared-out-of-bounds-atomic",
            Rule::LocalOutOfBoundsRead => "local-out-of-bounds-read",
            Rule::LocalOutOfBoundsWrite => "local-out-of-bounds-write",
            Rule::LocalOutOfBoundsAtomic => "local-out-of-bounds-atomic",
            Rule::ConstantOutOfBoundsRead => "constant-out-of-bounds-read",
            Rule::ParameterOutOfBoundsRead => "parameter-out-of-bounds-read",
            Rule::IntraAllocationOutOfBoundsRead => "intra-allocation-out-of-bounds-read",
            Rule::IntraAllocationOutOfBoundsWrite => "intra-allocation-out-of-bounds-write",
            Rule::IntraAllocationOutOfBoundsAtomic => "intra-allocation-out-of-bounds-atomic",
            Rule::MisalignedAccess => "misaligned-access",
            Rule::InvalidPointer => "invalid-pointer",
            Rule::UseAfterFree => "use-after-free",
            Rule::UseAfterPoison => "use-after-poison",
            Rule::UseAfterScope => "use-after-scope",
            Rule::UseBeforeAllocation => "use-before-allocation",
            Rule::StreamOrderRace => "stream-order-race",
            Rule::DoubleFree => "double-free",
            Rule::InvalidFree => "invalid-free",
            Rule::MemoryLeak => "memory-leak",
            Rule::CopyOutOfBoundsRead => "copy-out-of-bounds-read",
            Rule::CopyOutOfBoundsWrite => "copy-out-of-bounds-write",
            Rule::CanaryOverwritten => "canary-overwritten",
            Rule::KernelFailed => "kernel-failed",
        }
    }
}

/// Which thread of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ThreadCoordinates {
    /// `blockIdx`.
    pub block: [u32; 3],
    /// `threadIdx`.
    pub thread: [u32; 3],
}

/// One frame of a host call stack, innermost first in a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostFrame {
    /// Demangled function name, or the address when there is no symbol.
    pub function: String,
    /// File name, with debug information.
    pub file: Option<String>,
    /// Line, with debug information.
    pub line: Option<u32>,
    /// Object file that holds the code.
    pub object: Option<String>,
}

/// Where an address lies relative to an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "where", content = "bytes")]
pub enum Relation {
    /// Bytes from the allocation's end to the address (0: first byte past).
    After(u64),
    /// Bytes from the address up to the allocation's first byte.
    Before(u64),
    /// Bytes from the allocation's first byte to the address; the access
    /// starts inside and runs over the end.
    Inside(u64),
}

/// An allocation together with how an access lies relative to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearestAllocation {
    /// The allocation.
    pub allocation: Allocation,
    /// Where the access starts, relative to it.
    pub relation: Relation,
    /// Host call stack of its creation, innermost first; empty if unknown.
    pub allocated_at: Vec<HostFrame>,
    /// Whether the program had freed it before the access was reported.
    pub freed: bool,
    /// Host call stack of that free, innermost first; empty if unknown.
    pub freed_at: Vec<HostFrame>,
}

/// An access by a kernel that broke a rule. A free by a kernel is one too: a
/// write of no bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceAccess {
    /// What the access does.
    pub kind: AccessKind,
    /// Space of what it was meant for, where the instruction names none.
    pub space: Space,
    /// Bytes accessed.
    pub width: u32,
    /// The instruction takes the number of bytes from a register; `width` is
    /// then the least that it can be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub width_at_run_time: bool,
    /// Bytes that the address must be a multiple of, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<u32>,
    /// Mangled name of the kernel that was launched; empty if unknown.
    pub kernel: String,
    /// Mangled name of the function that holds the access.
    pub function: String,
    /// Source position of the access.
    pub source: Option<SourceLocation>,
    /// Line in the module's PTX, from 1.
    pub ptx_line: u32,
    /// The PTX instruction.
    pub instruction: String,
    /// The first thread that was seen to do it.
    pub thread: ThreadCoordinates,
    /// Ordinal of the launch in the process, from 1; 0 if unknown.
    pub launch: u64,
    /// Host call stack of the launch, innermost first; empty if unknown.
    pub launched_at: Vec<HostFrame>,
}

/// A call by the host that broke a rule: a copy, a set, a free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCall {
    /// The driver function, as it is exported: `cuMemcpyHtoD_v2`.
    pub function: String,
    /// What the call was to do, in one line for people.
    pub detail: String,
    /// Bytes that it was to read or write; `None` for a free.
    pub width: Option<u64>,
    /// Host call stack, innermost first; empty if unknown.
    pub called_at: Vec<HostFrame>,
}

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KernelArgument {
    /// Its place, from 0.
    pub index: u32,
    /// Its name; `None` if the platform has none.
    pub name: Option<String>,
}

/// What was found of bytes that nothing may write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overwritten {
    /// How many bytes were found changed.
    pub bytes: u64,
    /// Distance of the changed byte that is farthest from the buffer, counted
    /// as in [`Relation`], which has the nearest.
    pub farthest: u64,
    /// Content from the lowest changed byte on, at most 16 bytes.
    pub found: Vec<u8>,
    /// The nearest changed pixel, past the edge of an image. Distances count
    /// from the end of the first dimension past which anything changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pixel: Option<[u64; 3]>,
}

/// A kernel as a whole: what it did was seen when it had ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelRun {
    /// Name of the kernel.
    pub kernel: String,
    /// The argument through which it could reach the buffer; `None`: a
    /// pointer that it found in memory.
    pub argument: Option<KernelArgument>,
    /// Other kernels that ran since the canary was last seen whole, and could
    /// have done it as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// What it left.
    pub overwritten: Overwritten,
    /// Ordinal of the launch in the process, from 1.
    pub launch: u64,
    /// Host call stack of the launch, innermost first; empty if unknown.
    pub launched_at: Vec<HostFrame>,
    /// It was seen while kernels ran, and this is how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<Watched>,
}

/// How the guard saw something (`--protect watch`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Kernels that had been launched and not been waited for, oldest first.
    pub running: Vec<RunningKernel>,
    /// When it was seen, in nanoseconds of the device's `%globaltimer`.
    pub device_time: u64,
}

/// A kernel that had been launched when something was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningKernel {
    /// Name of the kernel; empty for a graph.
    pub kernel: String,
    /// Ordinal of the launch in the process, from 1.
    pub launch: u64,
    /// The stream, in words.
    pub stream: String,
    /// Whether its stream still had work after it had been seen; `None` if
    /// that is not known.
    pub unfinished: Option<bool>,
}

/// A kernel that the device stopped, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The driver's name of the error: `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub error: String,
    /// The error's number in `cuda.h`.
    pub code: u32,
    /// What the error means, in words.
    pub meaning: String,
    /// Kernels that were running, or could have been, oldest first; the
    /// kernel that failed alone, where the device names it.
    pub kernels: Vec<RunningKernel>,
    /// Where the kernel was stopped; `None` if the device does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// The driver function that returned the error first; empty if none did.
    pub call: String,
    /// Host call stack of that call, innermost first; empty if unknown.
    pub called_at: Vec<HostFrame>,
    /// Host call stack of the launch, where one kernel alone could have
    /// failed; empty if unknown.
    pub launched_at: Vec<HostFrame>,
}

/// Where a kernel was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// What happened: the text of a failed assertion, the address.
    pub detail: String,
    /// The thread; of a warp, its first.
    pub thread: ThreadCoordinates,
    /// Source position, with line information.
    pub source: Option<SourceLocation>,
    /// Line in the PTX that ran, from 1; 0 if unknown.
    pub ptx_line: u32,
    /// The opcode of the PTX instruction.
    pub instruction: String,
}

/// The culprit: the part of the program that broke the rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum Subject {
    /// A kernel.
    Access(DeviceAccess),
    /// A kernel, seen after it had ended.
    Kernel(KernelRun),
    /// A call by the host.
    Call(HostCall),
    /// The program as a whole: it never freed the intended allocation.
    Leak,
    /// A kernel, or one of several, that the device stopped.
    Failure(Failure),
}

/// One error, deduplicated: an access by its site, what a kernel left by
/// kernel, argument and side of the buffer, a call by its function and stack,
/// a leak by the stack of its allocation. A context has one failure at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What is wrong.
    pub rule: Rule,
    /// First byte accessed or copied; the pointer that was freed; the first
    /// byte of what leaked; 0 for a failure whose address is not known.
    pub address: DeviceAddress,
    /// The part of the program that broke the rule.
    pub subject: Subject,
    /// The allocation that the pointer was derived from, if known.
    pub intended: Option<NearestAllocation>,
    /// Another live allocation that the access hit or is nearest to.
    pub nearest: Option<NearestAllocation>,
    /// How often it was seen (threads, launches, calls, allocations).
    pub occurrences: u64,
}

impl Finding {
    /// The access, if a kernel did it.
    pub fn access(&self) -> Option<&DeviceAccess> {
        match &self.subject {
            Subject::Access(access) => Some(access),
            Subject::Kernel(_) | Subject::Call(_) | Subject::Leak | Subject::Failure(_) => None,
        }
    }

    /// The kernel, if it was seen only after it had ended.
    pub fn kernel_run(&self) -> Option<&KernelRun> {
        match &self.subject {
            Subject::Kernel(run) => Some(run),
            Subject::Access(_) | Subject::Call(_) | Subject::Leak | Subject::Failure(_) => None,
        }
    }

    /// The call, if the host did it.
    pub fn call(&self) -> Option<&HostCall> {
        match &self.subject {
            Subject::Call(call) => Some(call),
            Subject::Access(_) | Subject::Kernel(_) | Subject::Leak | Subject::Failure(_) => None,
        }
    }

    /// The failure, if the device stopped a kernel.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.subject {
            Subject::Failure(failure) => Some(failure),
            Subject::Access(_) | Subject::Kernel(_) | Subject::Call(_) | Subject::Leak => None,
        }
    }
}

impl Failure {
    /// The kernel that failed, where no other could have; empty for a graph.
    pub fn kernel(&self) -> Option<&str> {
        match self.kernels.as_slice() {
            [only] => Some(&only.kernel),
            _ => None,
        }
    }

    /// Where in the program's device code it was stopped, if that is known.
    pub fn source(&self) -> Option<&SourceLocation> {
        self.stopped.as_ref()?.source.as_ref()
    }

    /// The most useful host call stack: that of the launch, else that of the
    /// call that returned the error.
    pub fn frames(&self) -> &[HostFrame] {
        if self.launched_at.is_empty() {
            &self.called_at
        } else {
            &self.launched_at
        }
    }
}
