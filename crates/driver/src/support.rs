//! Kernels of Ringfence's own: what the runtime runs on the device beside the
//! program's, and where.

/// A module of Ringfence's own, loaded in one context and hidden from the
/// program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SupportModule {
    /// The module's handle.
    pub handle: u64,
}

/// A kernel of such a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SupportKernel {
    /// The function's handle.
    pub handle: u64,
}

/// Where a kernel of Ringfence's own runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SupportStream {
    /// In a stream of the program, after the work already in it. While that
    /// stream is captured the launch becomes a node of the graph.
    Program {
        /// The stream, as the program names it.
        handle: u64,
        /// Null stands for the calling thread's own stream.
        per_thread: bool,
    },
    /// In the current context's stream of Ringfence's own, which waits for
    /// none of the program's.
    Own,
    /// In another such stream, of the greatest priority, for a kernel that
    /// stays.
    Guard,
}

/// A launch of a kernel of Ringfence's own: blocks and threads of one
/// dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportLaunch<'a> {
    /// Blocks.
    pub blocks: u32,
    /// Threads of each.
    pub threads: u32,
    /// The parameter block, as long as the kernel's parameters are.
    pub parameters: &'a [u8],
    /// Where.
    pub stream: SupportStream,
    /// The kernel itself waits for what is before it in its stream
    /// (`griddepcontrol.wait`), so the device may start it early. That is a
    /// hint: it is not heeded where the driver cannot do it, nor in
    /// Ringfence's own streams, nor while the stream is captured.
    pub waits_itself: bool,
}

/// An event of Ringfence's own in a stream: it is complete when the work before
/// it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamEvent {
    /// Its handle.
    pub handle: u64,
}
