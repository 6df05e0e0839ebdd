//! The connection to the manager.

use crate::ahead::Ahead;
use crate::state::State;
use crate::through::Through;
use driver::DriverError;
use driver::sys::CUresult;
use parking_lot::Mutex;
use protocol::{
    Channel, ChannelError, Frame, Hello, MAGIC, Reply, Request, RingChannel, SocketChannel,
    VERSION, Welcome,
};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whom to connect to, and as whom.
pub struct Options<'a> {
    /// The manager's socket; the default ones if `None`.
    pub socket: Option<&'a Path>,
    /// Bytes of device memory that are needed; 0 for what the manager gives.
    pub memory: u64,
    /// A name, for the manager's administrator.
    pub name: &'a str,
    /// Prints one line for people.
    pub say: fn(&str),
    /// Writes to the program's standard output, in order with what it writes
    /// itself.
    pub print: fn(&[u8]),
}

/// The program cannot be a tenant.
#[derive(Debug)]
pub enum ConnectError {
    /// There is no manager.
    NoManager(PathBuf, std::io::Error),
    /// It does not answer, or ends the connection.
    Broken(PathBuf, ChannelError),
    /// It does not take the tenant, and says why.
    Refused(String),
    /// Its first answer is none.
    NoWelcome(PathBuf),
    /// The addresses of the device memory are in use in this process.
    Addresses(u64, u64),
}

impl std::error::Error for ConnectError {}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConnectError::NoManager(path, error) => write!(
                f,
                "there is no manager at {}: {error}; start one with `ringfence manager`, or name its socket with --socket",
                path.display()
            ),
            ConnectError::Broken(path, error) => {
                write!(
                    f,
                    "the manager at {} gave no answer: {error}",
                    path.display()
                )
            }
            ConnectError::Refused(why) => write!(f, "the manager refuses this program: {why}"),
            ConnectError::NoWelcome(path) => {
                write!(f, "what listens at {} is no manager", path.display())
            }
            ConnectError::Addresses(base, end) => write!(
                f,
                "the addresses {base:#x} to {end:#x}, which the manager gives the program's device memory, are in use in this process"
            ),
        }
    }
}

/// The connection, and what the program has made over it.
pub(crate) struct Link {
    pub(crate) channel: Mutex<Wire>,
    /// What the manager said first.
    pub(crate) welcome: Welcome,
    /// What the program's handles mean.
    pub(crate) state: State,
    say: fn(&str),
    print: fn(&[u8]),
    pub(crate) is_lost: AtomicBool,
    /// A kernel has failed: every call says so from then on.
    has_failed: AtomicBool,
}

pub(crate) struct Wire {
    /// None in a forked child.
    pub(crate) channel: Option<RingChannel>,
    pub(crate) frame: Frame,
    pub(crate) ahead: Ahead,
    pub(crate) through: Through,
}

/// How a request is sent.
type Send = fn(&mut dyn Channel, &Request, &[u8]) -> Result<(), ChannelError>;

static LINK: OnceLock<Link> = OnceLock::new();

/// The program ends: what it leaves running the manager ends, when the socket closes.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Whether the program ends.
pub(crate) fn is_ending() -> bool {
    IS_ENDING.load(Ordering::Acquire)
}

extern "C" fn ending() {
    IS_ENDING.store(true, Ordering::Release);
}

/// The connection, once there is one.
pub(crate) fn get() -> Option<&'static Link> {
    LINK.get()
}

/// The system's manager, if there is one, else the user's own.
fn find_socket() -> PathBuf {
    let of_system = PathBuf::from(protocol::SYSTEM_SOCKET);
    match of_system.exists() {
        true => of_system,
        false => protocol::default_socket(),
    }
}

/// Connects this process to a manager, once.
///
/// # Errors
///
/// See [`ConnectError`].
pub fn connect(options: &Options<'_>) -> Result<(), ConnectError> {
    if LINK.get().is_some() {
        return Ok(());
    }
    let path = options.socket.map_or_else(find_socket, Path::to_owned);
    let broken = |error| ConnectError::Broken(path.clone(), error);
    let socket =
        UnixStream::connect(&path).map_err(|error| ConnectError::NoManager(path.clone(), error))?;
    let mut channel = SocketChannel::new(socket).map_err(broken)?;
    let mut name = options.name.to_owned();
    while name.len() > protocol::NAME_BYTES {
        name.pop();
    }
    let hello = Request::Hello(Hello {
        magic: MAGIC,
        version: VERSION,
        name,
        memory: options.memory,
    });
    Frame::send(&mut channel, &hello, &[]).map_err(broken)?;
    let mut frame = Frame::default();
    let patience = channel.set_patience(Some(WELCOME));
    patience.map_err(broken)?;
    let welcome = match frame.receive(&mut channel).map_err(broken)? {
        Reply::Welcome(welcome) => welcome,
        Reply::Refused(why) => return Err(ConnectError::Refused(why)),
        _ => return Err(ConnectError::NoWelcome(path)),
    };
    let channel = RingChannel::connect(channel).map_err(broken)?;
    reserve(welcome.base, welcome.size)?;
    let link = Link {
        channel: Mutex::new(Wire {
            channel: Some(channel),
            frame,
            ahead: Ahead::new(),
            through: Through::new(),
        }),
        state: State::new(&welcome),
        welcome,
        say: options.say,
        print: options.print,
        is_lost: AtomicBool::new(false),
        has_failed: AtomicBool::new(false),
    };
    // Another thread may have been first; then this connection ends.
    let _ = LINK.set(link);
    // Before the handlers that were registered earlier, such as those that unload the
    // program's modules.
    // SAFETY: a function of a library that is never unloaded.
    unsafe { libc::atexit(ending) };
    Ok(())
}

/// How long the manager may take to make a partition.
const WELCOME: Duration = Duration::from_secs(60);

/// Takes the addresses of device memory in this process, too, without access:
/// so no host memory has them, and a host access to device memory faults as it
/// does natively.
fn reserve(base: u64, size: u64) -> Result<(), ConnectError> {
    let refused = ConnectError::Addresses(base, base.saturating_add(size));
    let Ok(bytes) = usize::try_from(size) else {
        return Err(refused);
    };
    let wanted = std::ptr::without_provenance_mut(base as usize);
    // SAFETY: a new mapping without access; MAP_FIXED_NOREPLACE never replaces
    // one that exists.
    let made = unsafe {
        libc::mmap(
            wanted,
            bytes,
            libc::PROT_NONE,
            libc::MAP_PRIVATE
                | libc::MAP_ANONYMOUS
                | libc::MAP_NORESERVE
                | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    if made == wanted {
        return Ok(());
    }
    if made != libc::MAP_FAILED {
        // SAFETY: just made, at another address, and nothing uses it.
        unsafe { libc::munmap(made, bytes) };
    }
    Err(refused)
}

/// In a forked child: the connection is the parent's.
pub fn in_child() {
    let Some(link) = LINK.get() else { return };
    link.is_lost.store(true, Ordering::Release);
    // So that the manager sees the parent's end. The lock may be held by a
    // thread that the child does not have.
    if let Some(mut wire) = link.channel.try_lock() {
        wire.channel = None;
    }
}

/// How long to wait before asking again, so that a wait takes at most a
/// sixteenth longer than the work.
pub(crate) struct Patience {
    start: Instant,
}

/// The shortest pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_micros(10), Duration::from_millis(1));

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience {
            start: Instant::now(),
        }
    }

    /// Whether the wait has taken so long.
    pub(crate) fn has_lasted(&self, time: Duration) -> bool {
        self.start.elapsed() >= time
    }

    pub(crate) fn pause(&self) {
        let (shortest, longest) = PAUSES;
        let pause = self.start.elapsed() / 16;
        if pause < shortest {
            // Shorter than the system can sleep.
            return std::thread::yield_now();
        }
        std::thread::sleep(pause.min(longest));
    }
}

impl Link {
    /// One line for people.
    pub(crate) fn say(&self, text: &str) {
        (self.say)(text);
    }

    /// What kernels print.
    pub(crate) fn print(&self, text: &[u8]) {
        (self.print)(text);
    }

    /// Asks once, and waits if it is done soon. `read` gets the payload of the
    /// reply.
    pub(crate) fn ask(
        &self,
        request: &Request,
        payload: &[u8],
        read: impl FnOnce(&[u8]),
    ) -> Result<Reply, CUresult> {
        self.exchange(request, payload, Frame::send_patiently, read)
    }

    fn exchange(
        &self,
        request: &Request,
        payload: &[u8],
        send: Send,
        read: impl FnOnce(&[u8]),
    ) -> Result<Reply, CUresult> {
        let gone = CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE;
        if self.is_lost.load(Ordering::Acquire) {
            return Err(gone);
        }
        let mut wire = self.channel.lock();
        let Wire {
            channel: Some(channel),
            frame,
            ahead,
            through,
        } = &mut *wire
        else {
            return Err(gone);
        };
        let sent = send(channel, request, payload);
        let reply = sent.and_then(|()| frame.receive::<Reply>(channel));
        if let Ok(reply) = &reply {
            ahead.answered(request, reply);
            through.answered(request, ahead);
        }
        match reply {
            Ok(Reply::Failed { code, message }) => {
                drop(wire);
                self.note(code);
                // (`memory::take` tries that again.)
                let is_tried_again =
                    matches!(request, Request::Allocate { .. }) && !self.state.order.is_empty();
                if !is_tried_again {
                    self.explain(code, &message);
                }
                Err(CUresult(code))
            }
            Ok(Reply::Refused(why)) => {
                self.lose(&why);
                Err(gone)
            }
            Ok(reply) => {
                read(frame.payload());
                Ok(reply)
            }
            Err(error) => {
                self.lose(&error.to_string());
                Err(gone)
            }
        }
    }

    /// Sends what has no answer but an error, and cannot have that as far as is
    /// known; an error comes from a later call all the same. `false`: it was not
    /// sent, because the manager might have to wait, or a kernel has failed.
    pub(crate) fn send(&self, request: &Request, payload: &[u8]) -> Result<bool, CUresult> {
        let gone = CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE;
        if self.is_lost.load(Ordering::Acquire) {
            return Err(gone);
        }
        if self.has_failed.load(Ordering::Acquire) {
            return Ok(false);
        }
        let mut wire = self.channel.lock();
        let wire = &mut *wire;
        let channel = wire.channel.as_mut().ok_or(gone)?;
        if channel.is_held() || !wire.ahead.may_send(request) {
            return Ok(false);
        }
        match Frame::send_quietly(channel, request, payload) {
            Ok(()) => Ok(true),
            Err(error) => {
                self.lose(&error.to_string());
                Err(gone)
            }
        }
    }

    /// Puts work into a stream: without waiting for the reply if the work cannot
    /// fail as far as is known. `false`: the manager has no room for it while somebody
    /// waits until all streams are idle. A kernel may wait for what other requests put in,
    /// so these must not wait for this one.
    pub(crate) fn put(&self, request: &Request, cannot_fail: bool) -> Result<bool, CUresult> {
        if cannot_fail && self.send(request, &[])? {
            return Ok(true);
        }
        let patience = Patience::new();
        loop {
            match self.ask(request, &[], |_| {})? {
                Reply::Done => return Ok(true),
                // Others have work, or there is much in the stream: that ends by itself.
                Reply::Busy if !self.is_held() => patience.pause(),
                Reply::Busy => return Ok(false),
                _ => return Err(self.astray()),
            }
        }
    }

    /// Whether somebody waits until all streams are idle, so that the manager puts one
    /// piece of work at a time into each.
    fn is_held(&self) -> bool {
        let wire = self.channel.lock();
        wire.channel.as_ref().is_some_and(RingChannel::is_held)
    }

    /// Notes whether this error is one that every call returns from now on.
    pub(crate) fn note(&self, code: u32) {
        let error = DriverError {
            call: "a call",
            code: CUresult(code),
            message: String::new(),
        };
        if error.is_sticky() {
            self.has_failed.store(true, Ordering::Release);
        }
    }

    /// Whether requests are sent without a reply: as long as nothing has failed.
    pub(crate) fn may_send(&self) -> bool {
        !self.is_lost.load(Ordering::Acquire) && !self.has_failed.load(Ordering::Acquire)
    }

    /// The context was reset.
    pub(crate) fn forget_failure(&self) {
        self.has_failed.store(false, Ordering::Release);
    }

    /// Says why the manager did not do something that programs do not expect to
    /// fail.
    pub(crate) fn explain(&self, code: u32, message: &str) {
        let silent = [
            CUresult::CUDA_ERROR_INVALID_VALUE,
            CUresult::CUDA_ERROR_INVALID_HANDLE,
            CUresult::CUDA_ERROR_NOT_READY,
        ];
        if !message.is_empty() && !silent.contains(&CUresult(code)) {
            self.say(&format!("the manager: {message}"));
        }
    }

    pub(crate) fn lose(&self, why: &str) {
        if !self.is_lost.swap(true, Ordering::AcqRel) {
            self.say(&format!(
                "error: the connection to the manager has ended: {why}; what this program had on the device is gone"
            ));
        }
    }

    /// Asks until the reply is not [`Reply::Busy`].
    pub(crate) fn wait(&self, request: &Request) -> Result<Reply, CUresult> {
        self.wait_with(request, &[], |_| {})
    }

    /// As [`Link::wait`], with a payload; `read` gets that of each reply.
    pub(crate) fn wait_with(
        &self,
        request: &Request,
        payload: &[u8],
        mut read: impl FnMut(&[u8]),
    ) -> Result<Reply, CUresult> {
        let patience = Patience::new();
        loop {
            match self.ask(request, payload, &mut read)? {
                Reply::Busy => patience.pause(),
                reply => return Ok(reply),
            }
        }
    }

    /// As [`Link::wait`], for what has no answer.
    pub(crate) fn done(&self, request: &Request) -> Result<(), CUresult> {
        match self.wait(request)? {
            Reply::Done => Ok(()),
            _ => Err(self.astray()),
        }
    }

    /// Asks once whether something is over, and waits for nothing.
    pub(crate) fn is_over(&self, request: &Request) -> Result<(), CUresult> {
        match self.exchange(request, &[], Frame::send, |_| {})? {
            Reply::Done => Ok(()),
            Reply::Busy => Err(CUresult::CUDA_ERROR_NOT_READY),
            _ => Err(self.astray()),
        }
    }

    /// A reply of another kind came than belongs to the request.
    pub(crate) fn astray(&self) -> CUresult {
        self.lose("an answer does not fit its question");
        CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
    }
}
