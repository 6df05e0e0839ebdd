//! The control socket, at which the manager's own user makes and ends slices
//! ([`crate::slices`]).

use crate::device::Device;
use crate::log;
use crate::slices::{Connected, SliceId, Slices};
use crate::threads::spawn;
use protocol::{
    CONTROL_MAGIC, CONTROL_VERSION, ChannelError, ControlReply, ControlRequest, Frame,
    ManagerState, SocketChannel,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

/// What the control socket leads to.
pub(crate) struct Control {
    pub(crate) slices: Arc<Slices>,
    pub(crate) device: Arc<Device>,
    /// Bytes that one tenant may have.
    pub(crate) memory_per_tenant: u64,
    /// Takes a tenant of a slice.
    pub(crate) take: Take,
}

/// Gets a connection to the socket of a slice.
pub(crate) type Take = Box<dyn Fn(UnixStream, Connected) + Send + Sync>;

/// How long to wait after a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(50);

/// Makes the slices again that a manager before this one had, and serves the
/// control socket, each on threads of its own.
pub(crate) fn start(control: &Arc<Control>, listener: UnixListener) {
    let slices = &control.slices;
    match slices.left() {
        Ok(left) => {
            for slice in left {
                let added = slice
                    .map_err(|path| format!("{path} holds no limit of a slice"))
                    .and_then(|slice| slices.add(&slice));
                match added {
                    Ok((slice, listener, _)) => serve_slice(control, slice, listener),
                    Err(why) => log::line(&format!("warning: a slice is not made again: {why}")),
                }
            }
        }
        Err(error) => log::line(&format!("warning: slices are not made again: {error}")),
    }
    let control = Arc::clone(control);
    spawn("ringfence-control", move || {
        for socket in listener.incoming() {
            let Ok(socket) = socket else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let control = Arc::clone(&control);
            spawn("ringfence-control", move || {
                if let Err(why) = converse(&control, socket) {
                    log::line(&format!("warning: at the control socket: {why}"));
                }
            });
        }
    });
}

/// Takes the tenants of a slice until it is removed.
fn serve_slice(control: &Arc<Control>, slice: SliceId, listener: Arc<UnixListener>) {
    let control = Arc::clone(control);
    spawn("ringfence-slice", move || {
        while control.slices.has(&slice) {
            match listener.accept() {
                Ok((socket, _)) => {
                    if let Some(connected) = control.slices.connect(&slice, &socket) {
                        (control.take)(socket, connected);
                    }
                }
                // Descriptors are exhausted, the other side is gone, or the slice
                // is.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    });
}

/// Answers until the connection ends.
fn converse(control: &Arc<Control>, socket: UnixStream) -> Result<(), String> {
    let slices = &control.slices;
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let mut channel = SocketChannel::new(socket).map_err(|error| told(&error))?;
    let peer = channel.peer().map_err(|error| told(&error))?;
    let own = rustix::process::geteuid().as_raw();
    let mut frame = Frame::default();
    let mut is_known = false;
    loop {
        let request = match frame.receive::<ControlRequest>(&mut channel) {
            Ok(request) => request,
            Err(ChannelError::Closed) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let reply = match request {
            // The socket's mode says so, too; this does not depend on folders.
            _ if peer.uid != 0 && peer.uid != own => {
                Err("only the manager's own user and the superuser may make slices".into())
            }
            ControlRequest::Hello { magic, version }
                if magic == CONTROL_MAGIC && version == CONTROL_VERSION =>
            {
                is_known = true;
                Ok(ControlReply::Done)
            }
            ControlRequest::Hello { version, .. } => Err(format!(
                "the command speaks version {version} of the control protocol, the manager version {CONTROL_VERSION}; install the same Ringfence for both"
            )),
            _ if !is_known => Err("the first message is not who it is".into()),
            ControlRequest::State => Ok(ControlReply::State(state(control))),
            ControlRequest::Add(new) => slices.add(&new).map(|(slice, listener, state)| {
                log::line(&format!("slice {} has {} bytes", state.name, state.memory));
                serve_slice(control, slice, listener);
                ControlReply::Slice(state)
            }),
            ControlRequest::Remove { name } => slices.remove(&name).map(|()| {
                log::line(&format!("slice {} is removed", log::clean(&name)));
                ControlReply::Done
            }),
        };
        let is_refused = reply.is_err() && !is_known;
        let reply = reply.unwrap_or_else(ControlReply::Refused);
        Frame::send(&mut channel, &reply, &[]).map_err(|error| error.to_string())?;
        if is_refused {
            return Ok(());
        }
    }
}

fn state(control: &Control) -> ManagerState {
    let device = &control.device;
    ManagerState {
        device: device.facts.name.clone(),
        // A device that does not say it any more has failed.
        memory: device.context.total_memory().unwrap_or(0),
        memory_per_tenant: control.memory_per_tenant,
        is_lost: device.is_lost(),
        slices: control.slices.states(),
    }
}
