//! Any bytes of any sender: a frame of a tenant, of the manager, of an
//! administrator's program or of a slice's control socket is a message or an
//! error, never a panic; a message that was read is written in one way. The first
//! byte selects what the bytes are read as. (What the manager does about
//! well-formed requests in any order is attacked by `ringfence-bench isolation`.)
#![no_main]

use protocol::{
    AdminReply, AdminRequest, Channel, ChannelError, ControlReply, ControlRequest, Frame, Reply,
    Request,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A channel that keeps what is sent.
#[derive(Default)]
struct Kept(Vec<u8>);

impl Channel for Kept {
    fn send(&mut self, parts: &[&[u8]]) -> Result<(), ChannelError> {
        self.0 = parts.concat();
        Ok(())
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> Result<(), ChannelError> {
        frame.clone_from(&self.0);
        Ok(())
    }

    fn set_patience(&mut self, _patience: Option<Duration>) -> Result<(), ChannelError> {
        Ok(())
    }
}

fn read_as<M: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok((message, frame)) = Frame::parse::<M>(bytes.to_vec()) else {
        return;
    };
    // Numbers may be written in more bytes than they need: what is written again
    // is never longer, and from then on the same. (Not compared as values: a time
    // may be no number, which equals nothing.)
    let written = write(&message, frame.payload());
    let (again, frame) = Frame::parse::<M>(written.clone()).expect("it was just written");
    assert_eq!(write(&again, frame.payload()), written);
}

fn write(message: &impl Serialize, payload: &[u8]) -> Vec<u8> {
    let mut channel = Kept::default();
    Frame::send(&mut channel, message, payload).expect("as short as what was read");
    channel.0
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 6 {
        0 => read_as::<Request>(bytes),
        1 => read_as::<Reply>(bytes),
        2 => read_as::<ControlRequest>(bytes),
        3 => read_as::<ControlReply>(bytes),
        4 => read_as::<AdminRequest>(bytes),
        _ => read_as::<AdminReply>(bytes),
    }
});
