//! The socket of the administrator: the manager's own user, or root, asks who is
//! there. Whoever connects waits for those before, and none longer than a moment.

use crate::log;
use protocol::{
    AdminReply, AdminRequest, Channel, ChannelError, Credentials, Frame, MAGIC, Overview,
    SocketChannel, VERSION,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// How long one connection may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers, for ever.
pub(crate) fn serve(listener: &UnixListener, overview: impl Fn() -> Overview) {
    for socket in listener.incoming() {
        let answered = match socket {
            Ok(socket) => answer(socket, &overview),
            Err(error) => {
                // Descriptors may be exhausted.
                std::thread::sleep(Duration::from_millis(50));
                Err(ChannelError::Io(error))
            }
        };
        if let Err(error) = answered {
            log::line(&format!(
                "warning: a request of the administrator was not answered: {error}"
            ));
        }
    }
}

fn answer(socket: UnixStream, overview: &impl Fn() -> Overview) -> Result<(), ChannelError> {
    let peer = Credentials::of(&socket).map_err(std::io::Error::other)?;
    let own = rustix::process::geteuid().as_raw();
    let mut channel = SocketChannel::new(socket)?;
    channel.set_patience(Some(PATIENCE))?;
    let reply: AdminReply = if peer.uid != 0 && peer.uid != own {
        log::line(&format!("warning: {peer} asked who is there, and may not"));
        Err(format!("only user {own} and root may ask"))
    } else {
        let request: AdminRequest = Frame::default().receive(&mut channel)?;
        if request.magic != MAGIC {
            Err("this is no request of the administrator".into())
        } else if request.version != VERSION {
            Err(format!(
                "the command speaks version {} of the protocol, the manager version {VERSION}",
                request.version
            ))
        } else {
            Ok(overview())
        }
    };
    Frame::send(&mut channel, &reply, &[])
}
