//! The socket that tenants connect to, and a thread for each of them.

use crate::addresses::Addresses;
use crate::admin;
use crate::compile::{Compiler, Starter, Store};
use crate::control::{self, Control};
use crate::device::{Device, DeviceChoice};
use crate::log;
use crate::options::{Options, StartError, Terms};
use crate::ownership::{self, Ownership};
use crate::partition::Partition;
use crate::quota::{self, Quota};
use crate::remains::Graveyard;
use crate::session::Session;
use crate::slices::{Connected, Place, SliceId, Slices};
use crate::sockets::{Locks, Sockets};
use crate::tenants::{Tenant, Tenants};
use crate::threads::spawn;
use driver::calls::{Context, Stream};
use protocol::{
    Channel, ChannelError, Credentials, Frame, Hello, MAGIC, NAME_BYTES, Overview, Reply, Request,
    RingChannel, SocketChannel, StoreTotals, VERSION, Welcome,
};
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A manager that tenants can connect to.
pub struct Server {
    sockets: Sockets,
    /// Held as long as the manager lives; a worker's supervisor has them.
    _locks: Option<Locks>,
    manager: Arc<Manager>,
}

/// What all tenants share.
struct Manager {
    device: Arc<Device>,
    addresses: Arc<Addresses>,
    slices: Arc<Slices>,
    compiler: Arc<Compiler>,
    quota: Quota,
    users: BTreeMap<u32, Quota>,
    tenants: Tenants,
    /// Of a GPU.
    _ownership: Option<Ownership>,
    graveyard: Graveyard,
    connections: AtomicUsize,
}

/// How long a device still belongs to a manager that was killed, at most.
const ORPHANED: Duration = Duration::from_secs(2);
/// How long a connection may take to say who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);

impl Server {
    /// Opens the device, and makes the sockets.
    ///
    /// # Errors
    ///
    /// See [`StartError`].
    pub fn start(options: &Options) -> Result<Server, StartError> {
        let terms = Terms::of(options)?;
        // The sockets first: a second manager shall not touch the device.
        let (sockets, locks) = Sockets::open(options)?;
        let starter = Starter::Here(options.worker.clone());
        Server::at((sockets, Some(locks)), starter, terms, options)
    }

    /// As [`Server::start`], at the sockets of a [supervisor](crate::supervise), which sends
    /// them.
    ///
    /// # Errors
    ///
    /// See [`StartError`].
    pub fn of_supervisor(options: &Options, supervisor: &UnixStream) -> Result<Server, StartError> {
        let terms = Terms::of(options)?;
        let inherited = Sockets::receive(options, supervisor);
        let (sockets, starter) = inherited.map_err(StartError::Inherited)?;
        let starter = Starter::of_supervisor(starter);
        Server::at((sockets, None), starter, terms, options)
    }

    fn at(
        (sockets, locks): (Sockets, Option<Locks>),
        starter: Starter,
        terms: Terms,
        options: &Options,
    ) -> Result<Server, StartError> {
        let Terms {
            quota,
            users,
            most,
            addresses,
        } = terms;
        let addresses = Arc::new(addresses);
        let folder = options.slices.clone().unwrap_or_default();
        let cache = options.cache.as_ref();
        let cache = cache.map(|(folder, limit)| cache::Cache::open(folder, *limit));
        let cache = cache.transpose()?;
        let device = Device::open(&options.device, options.kernel_time, options.stall_limit())?;
        let store = cache.map(|cache| Store::new(cache, &options.device, device.capability));
        let store = store.transpose().map_err(StartError::Store)?;
        let ownership = own(&device)?;
        let driver = match &options.device {
            DeviceChoice::Gpu(path) => Some(path.clone()),
            DeviceChoice::Cpu(_) => None,
        };
        let compiler = Compiler::new(starter, options.compile, driver, store);
        let compiler = compiler.map_err(StartError::Compiler)?;
        Ok(Server {
            sockets,
            _locks: locks,
            manager: Arc::new(Manager {
                device: Arc::new(device),
                slices: Arc::new(Slices::new(folder, Arc::clone(&addresses), most)),
                addresses,
                compiler: Arc::new(compiler),
                quota,
                users,
                tenants: Tenants::default(),
                _ownership: ownership,
                graveyard: Graveyard::default(),
                connections: AtomicUsize::new(0),
            }),
        })
    }

    /// Waits until the device's context has failed, and nothing runs on it any more.
    pub fn failure(&self) -> impl FnOnce() + Send + 'static {
        let device = Arc::clone(&self.manager.device);
        move || device.wait_until_lost()
    }

    /// The device's name.
    pub fn device_name(&self) -> &str {
        &self.manager.device.facts.name
    }

    /// Takes tenants, for ever.
    pub fn run(self) {
        let keeper = Arc::clone(&self.manager);
        spawn("ringfence-remains", move || {
            keeper.graveyard.keep(&keeper.device);
        });
        let Sockets {
            tenants,
            admin,
            control,
            metrics,
        } = self.sockets;
        if let Some(listener) = control {
            let manager = Arc::clone(&self.manager);
            let control = Control {
                slices: Arc::clone(&self.manager.slices),
                device: Arc::clone(&self.manager.device),
                memory_per_tenant: self.manager.quota.memory,
                take: Box::new(move |socket, connected| {
                    Manager::connected(&manager, socket, Via::Slice(connected));
                }),
            };
            control::start(&Arc::new(control), listener);
        }
        if self.manager.device.progress.is_limited() {
            let device = Arc::clone(&self.manager.device);
            spawn("ringfence-budget", move || {
                device.progress.keep(&device.context, &device.quiet);
            });
        }
        let manager = Arc::clone(&self.manager);
        spawn("ringfence-admin", move || {
            admin::serve(&admin, || manager.overview());
        });
        if let Some(metrics) = metrics {
            let manager = Arc::clone(&self.manager);
            spawn("ringfence-metrics", move || {
                metrics.serve(|| manager.overview());
            });
        }
        for socket in tenants.incoming() {
            match socket {
                Ok(socket) => {
                    let before = self.manager.connections.fetch_add(1, Ordering::AcqRel);
                    let counted = Counted(Arc::clone(&self.manager));
                    // Else closed at once: no thread and no memory for it.
                    if before < quota::CONNECTIONS {
                        Manager::connected(&self.manager, socket, Via::Main(counted));
                    }
                }
                // Descriptors are exhausted, or the other side is gone.
                Err(error) => {
                    log::line(&format!("warning: a tenant could not connect: {error}"));
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}

/// Takes the device from other managers, if it is a GPU; each has a CPU device of its
/// own.
fn own(device: &Device) -> Result<Option<Ownership>, StartError> {
    if device.is_cpu() {
        return Ok(None);
    }
    let name = || device.facts.name.clone();
    let start = Instant::now();
    loop {
        match ownership::take(&device.facts.uuid) {
            Ok(Some(ownership)) => return Ok(Some(ownership)),
            // The process of a manager that was killed ends a moment after it.
            Ok(None) if start.elapsed() < ORPHANED => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(None) => return Err(StartError::Owned(name())),
            Err(error) => return Err(StartError::Owned(format!("{} ({error})", name()))),
        }
    }
}

/// One connection among those that are counted.
struct Counted(Arc<Manager>);

/// Where a tenant came from.
enum Via {
    /// The manager's own socket.
    Main(Counted),
    /// The socket of a slice.
    Slice(Connected),
}

impl Via {
    fn slice(&self) -> Option<&SliceId> {
        match self {
            Via::Main(Counted(_)) => None,
            Via::Slice(connected) => Some(connected.slice()),
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Via::Main(Counted(_)) => false,
            Via::Slice(connected) => connected.has_ended(),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Manager {
    /// Gives a connection a thread.
    fn connected(manager: &Arc<Manager>, socket: UnixStream, via: Via) {
        let manager = Arc::clone(manager);
        spawn("ringfence-tenant", move || {
            match SocketChannel::new(socket) {
                Ok(channel) => manager.serve(channel, &via),
                Err(error) => log::line(&format!("warning: a tenant could not connect: {error}")),
            }
            drop(via);
        });
    }

    /// A connection, from its first byte to its last.
    fn serve(&self, mut channel: SocketChannel, via: &Via) {
        let slice = via.slice();
        let peer = match channel.peer() {
            Ok(peer) => peer,
            Err(error) => {
                log::line(&format!("warning: a tenant could not connect: {error}"));
                return;
            }
        };
        let mut frame = Frame::default();
        let (session, tenant) = match self.admit(&mut channel, peer, &mut frame, slice) {
            Ok(admitted) => admitted,
            Err(why) => {
                self.tenants.turn_away();
                let why_here = log::clean(&why);
                log::about(
                    &format!("{peer} was not admitted: {why_here}"),
                    &[("pid", peer.pid.into()), ("uid", peer.uid.into())],
                );
                // It may be gone already.
                let _ = Frame::send(&mut channel, &Reply::Refused(why), &[]);
                return;
            }
        };
        let mut leaving = Leaving {
            manager: self,
            session: Some(session),
            tenant: Arc::clone(&tenant),
        };
        let place = slice.map_or_else(String::new, |slice| format!(", in slice {}", slice.name));
        tenant.log(&format!("{} is here{place}", tenant.title()));
        let end = match RingChannel::accept(channel) {
            Ok(mut channel) => match &mut leaving.session {
                Some(session) => {
                    session.share(channel.staging().clone());
                    converse(&self.device, via, &mut channel, &mut frame, session)
                }
                None => return,
            },
            Err(error) => error,
        };
        tenant.log(&format!("{} is gone: {end}", tenant.title()));
    }

    /// What the administrator is told.
    fn overview(&self) -> Overview {
        let (uptime_seconds, mut totals, tenants) = self.tenants.overview();
        let counts = &self.compiler.counts;
        totals.compiled = counts.compiled.load(Ordering::Relaxed);
        totals.cached = counts.cached.load(Ordering::Relaxed);
        totals.not_compiled = counts.refused.load(Ordering::Relaxed);
        if let Some(store) = self.compiler.store() {
            let counts = store.counts();
            totals.store = StoreTotals {
                found: counts.found.load(Ordering::Relaxed),
                missing: counts.missing.load(Ordering::Relaxed),
                damaged: counts.damaged.load(Ordering::Relaxed),
                written: counts.written.load(Ordering::Relaxed),
                not_written: counts.not_written.load(Ordering::Relaxed),
                evicted: counts.evicted.load(Ordering::Relaxed),
            };
        }
        let (taken, all) = self.addresses.count();
        Overview {
            device: self.device.facts.name.clone(),
            uptime_seconds,
            partitions_taken: taken as u64,
            partitions: all as u64,
            totals,
            tenants,
        }
    }

    /// Reads who it is, and makes its partition; else why not.
    fn admit(
        &self,
        channel: &mut SocketChannel,
        peer: Credentials,
        frame: &mut Frame,
        slice: Option<&SliceId>,
    ) -> Result<(Session, Arc<Tenant>), String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let patience = channel.set_patience(Some(HANDSHAKE));
        patience.map_err(|error| told(&error))?;
        let first = frame.receive(channel).map_err(|error| told(&error))?;
        let Request::Hello(hello) = first else {
            return Err("the first message is not who it is".into());
        };
        channel.set_patience(None).map_err(|error| told(&error))?;
        check(&hello)?;
        if self.device.is_lost() {
            return Err("the device has failed; the manager must be restarted".into());
        }
        let Hello { name, memory, .. } = hello;
        let quota = *self.users.get(&peer.uid).unwrap_or(&self.quota);
        let live = || self.tenants.live();
        let place = self.slices.admit(slice, (memory, quota.memory), &live)?;
        let wanted = place.memory();
        let tenant = self
            .tenants
            .admit(log::clean(&name), peer, &quota, wanted)
            .ok_or_else(|| {
                format!(
                    "user {} has {} tenants, and may have no more at a time",
                    peer.uid, quota.tenants
                )
            })?;
        let made = self.make(place, quota, &tenant);
        let session = made.inspect_err(|_| self.tenants.withdraw(&tenant))?;
        let (base, size) = session.addresses();
        let welcome = Reply::Welcome(Welcome {
            base,
            size,
            memory: wanted,
            device: self.device.facts.clone(),
        });
        if let Err(error) = Frame::send(channel, &welcome, &[]) {
            self.tenants.withdraw(&tenant);
            self.graveyard.add(&self.device, session.into_remains());
            return Err(error.to_string());
        }
        Ok((session, tenant))
    }

    /// A tenant with this memory and these addresses.
    fn make(&self, place: Place, quota: Quota, tenant: &Arc<Tenant>) -> Result<Session, String> {
        let device = &self.device;
        let failed =
            |error: &dyn std::fmt::Display| format!("there is no room for another tenant: {error}");
        device
            .context
            .make_current()
            .map_err(|error| failed(&error))?;
        let stream = device.stream(false).map_err(|error| failed(&error))?;
        let stream = Arc::new(stream);
        device.progress.watch_newcomer(&stream);
        let at: (&Context, &Stream) = (&device.context, &stream);
        let partition = Partition::map(at, place, device.reserved_shared);
        let partition = partition.map_err(|error| failed(&error))?;
        let compiler = Arc::clone(&self.compiler);
        let session = Session::new(
            (Arc::clone(device), compiler),
            partition,
            quota,
            Arc::clone(tenant),
        );
        session.map_err(|error| failed(&error))
    }
}

/// Sees to it that what a tenant has is cleared away, also when its thread
/// panics.
struct Leaving<'m> {
    manager: &'m Manager,
    session: Option<Session>,
    tenant: Arc<Tenant>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.manager.tenants.leave(&self.tenant);
        if let Some(session) = self.session.take() {
            self.manager
                .graveyard
                .add(&self.manager.device, session.into_remains());
        }
    }
}

/// Whether this version can talk with it.
fn check(hello: &Hello) -> Result<(), String> {
    if hello.magic != MAGIC {
        return Err("what connected is no tenant".into());
    }
    if hello.version != VERSION {
        return Err(format!(
            "the tenant's library speaks version {} of the protocol, the manager version {VERSION}; install the same Ringfence for both",
            hello.version
        ));
    }
    if hello.name.len() > NAME_BYTES {
        return Err(format!("a name has at most {NAME_BYTES} bytes"));
    }
    Ok(())
}

/// Does what wants no answer, when there is room for it.
fn quietly(
    channel: &RingChannel,
    session: &mut Session,
    request: &Request,
    payload: &[u8],
) -> Result<(), ChannelError> {
    if !request.may_be_quiet() {
        return Err(ChannelError::Garbage(
            "no answer is wanted to a request that needs one",
        ));
    }
    // There is room at once for a tenant that keeps to QUIET_IN_A_ROW. Another
    // one waits for its own work alone, in its own thread.
    let mut pause = SHORT;
    while !session.handle_quietly(request, payload) {
        if channel.is_closed()? {
            return Err(ChannelError::Closed);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(FULL);
    }
    Ok(())
}

/// How often to look whether there is room: soon at first, as what is in flight
/// beside the work of others is short.
const SHORT: Duration = Duration::from_micros(50);
const FULL: Duration = Duration::from_millis(1);

/// The answer to a request. Where its sender is patient, it comes when the
/// request is done, if that is soon: a short kernel is over before the sender
/// could ask again.
fn answer(session: &mut Session, request: Request, frame: &Frame, out: &mut Vec<u8>) -> Reply {
    if !frame.is_patient() {
        return session.reply(request, frame.payload(), out);
    }
    let start = Instant::now();
    loop {
        let reply = session.reply(request.clone(), frame.payload(), out);
        if reply != Reply::Busy || start.elapsed() >= SOON {
            return reply;
        }
        std::hint::spin_loop();
    }
}

/// How long a patient sender waits for one answer. Its other threads cannot ask
/// meanwhile, so it is less than a kernel takes whose end is worth a sleep.
const SOON: Duration = Duration::from_micros(50);

/// Answers requests until the connection ends; why it did.
fn converse(
    device: &Device,
    via: &Via,
    channel: &mut RingChannel,
    frame: &mut Frame,
    session: &mut Session,
) -> ChannelError {
    let (mut out, mut is_held) = (Vec::new(), false);
    loop {
        let holds = device.quiet.has_waiters();
        if is_held != holds {
            channel.hold(holds);
            is_held = holds;
        }
        // Launches wait for others only while these are there: a tenant that stops sending,
        // in the middle of a message, too, must not hold up who waits until all are put in.
        let request = match frame.receive_with(channel, &mut || session.flush()) {
            Ok(request) => request,
            Err(error) => {
                // Said in case that somebody reads it.
                let _ = Frame::send(channel, &Reply::Refused(error.to_string()), &[]);
                return error;
            }
        };
        if via.has_ended() {
            let why = "its slice was removed".to_owned();
            let _ = Frame::send(channel, &Reply::Refused(why), &[]);
            return ChannelError::Closed;
        }
        let is_lost = device.is_lost();
        if frame.is_quiet() {
            // Where the device is lost, the next answer says so.
            if !is_lost && let Err(error) = quietly(channel, session, &request, frame.payload()) {
                let _ = Frame::send(channel, &Reply::Refused(error.to_string()), &[]);
                return error;
            }
            continue;
        }
        let reply = match is_lost {
            true => Reply::Refused("the device has failed".into()),
            false => answer(session, request, frame, &mut out),
        };
        if let Err(error) = Frame::send(channel, &reply, &out) {
            return error;
        }
    }
}
