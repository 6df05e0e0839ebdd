//! A tenant that speaks the protocol itself.

use anyhow::{Context, Result, bail};
use protocol::{
    Channel, ChannelError, Frame, Hello, MAGIC, Reply, Request, RingChannel, SocketChannel,
    VERSION, Welcome,
};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long the manager may take for one reply.
const PATIENCE: Duration = Duration::from_secs(20);

/// A tenant.
pub struct Raw {
    /// Where its requests go.
    pub channel: RingChannel,
    /// The last reply.
    pub frame: Frame,
    /// What the manager said of its partition.
    pub welcome: Welcome,
}

/// What a tenant says first.
pub fn hello(memory: u64) -> Hello {
    Hello {
        magic: MAGIC,
        version: VERSION,
        name: "raw".into(),
        memory,
    }
}

/// Connects and sends something; the connection and the answer.
///
/// # Errors
///
/// The manager does not take it, or does not answer.
pub fn greet(socket: &Path, first: &Request) -> Result<(SocketChannel, Reply)> {
    let socket = UnixStream::connect(socket).context("the manager takes no connection")?;
    let mut channel = SocketChannel::new(socket)?;
    channel.set_patience(Some(PATIENCE))?;
    Frame::send(&mut channel, first, &[])?;
    let reply = Frame::default().receive(&mut channel)?;
    Ok((channel, reply))
}

impl Raw {
    /// A tenant with so many bytes of memory, or with what the manager gives.
    ///
    /// # Errors
    ///
    /// The manager does not take it.
    pub fn connect(socket: &Path, memory: u64) -> Result<Raw> {
        match greet(socket, &Request::Hello(hello(memory)))? {
            (socket, Reply::Welcome(welcome)) => {
                let mut channel = RingChannel::connect(socket)?;
                channel.set_patience(Some(PATIENCE))?;
                Ok(Raw {
                    channel,
                    frame: Frame::default(),
                    welcome,
                })
            }
            (_, Reply::Refused(why)) => bail!("not admitted: {why}"),
            (_, other) => bail!("the manager answers {other:?}"),
        }
    }

    /// Sends a request and waits for its reply.
    ///
    /// # Errors
    ///
    /// The connection has ended.
    pub fn ask(&mut self, request: &Request, payload: &[u8]) -> Result<Reply, ChannelError> {
        loop {
            Frame::send(&mut self.channel, request, payload)?;
            let reply = self.frame.receive(&mut self.channel)?;
            // A module is compiled meanwhile.
            if *request != Request::Load || reply != Reply::Busy {
                return Ok(reply);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// An allocation.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn allocate(&mut self, size: u64) -> Result<u64> {
        match self.ask(&Request::Allocate { size }, &[])? {
            Reply::Address(address) => Ok(address),
            other => bail!("no memory: {other:?}"),
        }
    }
}
