//! Any bytes are a message or an error, and messages arrive as they were sent.

use proptest::prelude::*;
use protocol::{
    Attribute, Channel, ChannelError, DeviceFacts, Frame, Hello, Kernel, Limit, Loaded, MAGIC,
    MAX_FRAME, MAX_MESSAGE, MAX_PAYLOAD, Place, Reply, Request, RingChannel, SocketChannel,
    Unprinted, VERSION, Variable, Welcome,
};
use serde::Serialize;
use std::io::Write;
use std::os::unix::net::UnixStream;
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

fn frame_of(message: &impl Serialize, payload: &[u8]) -> Vec<u8> {
    let mut channel = Kept::default();
    Frame::send(&mut channel, message, payload).expect("sent");
    channel.0
}

fn place() -> impl Strategy<Value = Place> {
    any::<(u64, u64, u64, u64)>().prop_map(|(address, pitch, width, height)| Place {
        address,
        pitch,
        width,
        height,
    })
}

fn request() -> impl Strategy<Value = Request> {
    let number = any::<u32>;
    prop_oneof![
        (any::<String>(), any::<u64>()).prop_map(|(name, memory)| Request::Hello(Hello {
            magic: MAGIC,
            version: VERSION,
            name,
            memory,
        })),
        Just(Request::Upload),
        Just(Request::Load),
        number().prop_map(|module| Request::Unload { module }),
        (number(), number(), any::<i32>()).prop_map(|(kernel, attribute, value)| {
            Request::SetAttribute {
                kernel,
                attribute: Attribute { attribute, value },
            }
        }),
        (number(), any::<i32>(), number()).prop_map(|(kernel, threads, shared)| {
            Request::Occupancy {
                kernel,
                threads,
                shared,
            }
        }),
        (
            (number(), number(), number()),
            any::<([u32; 3], [u32; 3], bool)>(),
            any::<Vec<u8>>()
        )
            .prop_map(
                |((kernel, stream, shared), (grid, block, is_cooperative), parameters)| {
                    Request::Launch {
                        kernel,
                        stream,
                        grid,
                        block,
                        shared,
                        is_cooperative,
                        parameters,
                    }
                }
            ),
        any::<u64>().prop_map(|size| Request::Allocate { size }),
        any::<u64>().prop_map(|address| Request::Free { address }),
        any::<(u64, u32)>().prop_map(|(address, stream)| Request::FreeBehind { address, stream }),
        Just(Request::MemoryInfo),
        (number(), place()).prop_map(|(stream, to)| Request::Write { stream, to }),
        (number(), place()).prop_map(|(stream, from)| Request::Read { stream, from }),
        (number(), place(), place()).prop_map(|(stream, to, from)| Request::Copy {
            stream,
            to,
            from
        }),
        (number(), place(), number(), number()).prop_map(|(stream, place, element, value)| {
            Request::Fill {
                stream,
                place,
                element,
                value,
            }
        }),
        any::<bool>().prop_map(|is_blocking| Request::StreamCreate { is_blocking }),
        (number(), number()).prop_map(|(stream, event)| Request::StreamWait { stream, event }),
        Just(Request::Synchronize),
        Just(Request::Reset),
        Just(Request::Printed),
        any::<(bool, u64)>().prop_map(|(is_heap, bytes)| {
            let limit = if is_heap { Limit::Heap } else { Limit::Print };
            Request::SetLimit { limit, bytes }
        }),
        (number(), number()).prop_map(|(start, end)| Request::EventElapsed { start, end }),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        any::<(u64, u64, u64, i32)>().prop_map(|(base, size, memory, value)| {
            Reply::Welcome(Welcome {
                base,
                size,
                memory,
                device: DeviceFacts {
                    name: "device".into(),
                    version: value,
                    uuid: [7; 16],
                    attributes: vec![Attribute {
                        attribute: 3,
                        value,
                    }],
                },
            })
        }),
        any::<String>().prop_map(Reply::Refused),
        Just(Reply::Busy),
        any::<(bool, bool, u64)>().prop_map(|(has_more, is_garbage, lost)| {
            Reply::Printed(Unprinted {
                has_more,
                is_idle: !has_more,
                lost,
                is_garbage,
            })
        }),
        (any::<u32>(), any::<String>()).prop_map(|(code, message)| Reply::Failed { code, message }),
        any::<(u32, String, u64)>().prop_map(|(number, name, address)| {
            Reply::Loaded(Loaded {
                module: number,
                kernels: vec![Kernel {
                    kernel: number,
                    name: name.clone(),
                    parameters: vec![(0, 8), (8, 4)],
                    parameter_bytes: 12,
                    attributes: Vec::new(),
                }],
                variables: vec![Variable {
                    name,
                    address,
                    size: address,
                }],
                prints: address.is_multiple_of(2),
            })
        }),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let length = bytes.len();
        if let Ok((_, frame)) = Frame::parse::<Request>(bytes.clone()) {
            prop_assert!(frame.payload().len() < length);
        }
        let _ = Frame::parse::<Reply>(bytes);
    }

    #[test]
    fn messages_arrive_as_they_were_sent(
        request in request(), reply in reply(), payload in any::<Vec<u8>>(),
    ) {
        let (read, frame) = Frame::parse::<Request>(frame_of(&request, &payload)).expect("a request");
        prop_assert_eq!(&read, &request);
        prop_assert_eq!(frame.payload(), &payload[..]);
        let (read, _) = Frame::parse::<Reply>(frame_of(&reply, &payload)).expect("a reply");
        prop_assert_eq!(read, reply);
    }

    /// Messages that were altered are read or refused; what is read is written
    /// as it was read.
    #[test]
    fn altered_messages_do_no_harm(
        request in request(),
        payload in prop::collection::vec(any::<u8>(), 0..32),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = frame_of(&request, &payload);
        for (place, value) in edits {
            let at = place.index(bytes.len());
            bytes[at] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok((read, frame)) = Frame::parse::<Request>(bytes) {
            let again = frame_of(&read, frame.payload());
            let (twice, _) = Frame::parse::<Request>(again).expect("a request");
            prop_assert_eq!(twice, read);
        }
    }
}

#[test]
fn lengths_are_judged_before_memory_is_taken() {
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    let mut channel = SocketChannel::new(theirs).expect("a channel");
    let mut frame = Vec::new();
    ours.write_all(&u32::MAX.to_le_bytes()).expect("sent");
    assert!(matches!(
        channel.receive(&mut frame),
        Err(ChannelError::TooLarge(4_294_967_295))
    ));
    // As long as may be, but none of it comes.
    ours.write_all(&(MAX_FRAME as u32).to_le_bytes())
        .expect("sent");
    drop(ours);
    assert!(matches!(
        channel.receive(&mut frame),
        Err(ChannelError::Closed)
    ));
    assert!(frame.capacity() < MAX_FRAME / 2, "{}", frame.capacity());
    let mut message = Vec::from((MAX_MESSAGE as u32 + 1).to_le_bytes());
    message.resize(MAX_MESSAGE + 99, 0);
    assert!(matches!(
        Frame::parse::<Request>(message),
        Err(ChannelError::TooLarge(_))
    ));
    let too_long = vec![0; MAX_PAYLOAD + 1];
    let sent = Frame::send(&mut Kept::default(), &Request::Upload, &too_long);
    assert!(matches!(sent, Err(ChannelError::TooLarge(_))));
}

#[test]
fn frames_pass_a_socket_whole() {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let mut ours = SocketChannel::new(ours).expect("a channel");
    let mut theirs = SocketChannel::new(theirs).expect("a channel");
    let pid = ours.peer().expect("a peer").pid;
    assert_eq!(pid, Some(std::process::id()));
    let payload: Vec<u8> = (0..MAX_PAYLOAD).map(|at| (at * 7) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| Frame::send(&mut ours, &Request::Upload, &payload).expect("sent"));
        let mut frame = Frame::default();
        let read: Request = frame.receive(&mut theirs).expect("a request");
        assert_eq!(read, Request::Upload);
        assert!(frame.payload() == payload);
    });
    drop(ours);
    let mut frame = Frame::default();
    assert!(matches!(
        frame.receive::<Request>(&mut theirs),
        Err(ChannelError::Closed)
    ));
    theirs
        .set_patience(Some(Duration::from_millis(5)))
        .expect("set");
}

/// Both ends of rings that began as a socket.
fn rings() -> (RingChannel, RingChannel) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let tenant = std::thread::spawn(|| {
        RingChannel::connect(SocketChannel::new(theirs).expect("a channel")).expect("rings")
    });
    let manager = SocketChannel::new(ours).expect("a channel");
    let manager = RingChannel::accept(manager).expect("rings");
    (manager, tenant.join().expect("joined"))
}

#[test]
fn frames_pass_rings_whole_that_are_smaller() {
    let (mut manager, mut tenant) = rings();
    let payload: Vec<u8> = (0..MAX_PAYLOAD).map(|at| (at * 7) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| Frame::send(&mut tenant, &Request::Upload, &payload).expect("sent"));
        let mut frame = Frame::default();
        let read: Request = frame.receive(&mut manager).expect("a request");
        assert_eq!(read, Request::Upload);
        assert!(frame.payload() == payload);
    });
    let patience = Some(Duration::from_millis(5));
    tenant.set_patience(patience).expect("set");
    let mut frame = Frame::default();
    assert!(matches!(
        frame.receive::<Reply>(&mut tenant),
        Err(ChannelError::TimedOut)
    ));
    assert!(matches!(
        tenant.send(&[&vec![0; MAX_FRAME + 1]]),
        Err(ChannelError::TooLarge(_))
    ));
    // What was sent before the end arrives, and then the end.
    Frame::send(&mut tenant, &Request::Synchronize, &[]).expect("sent");
    drop(tenant);
    let last: Request = frame.receive(&mut manager).expect("a request");
    assert_eq!(last, Request::Synchronize);
    assert!(matches!(
        frame.receive::<Request>(&mut manager),
        Err(ChannelError::Closed)
    ));
}

#[test]
fn who_sends_something_else_gets_no_rings() {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    theirs.write_all(&[0xff; 64]).expect("sent");
    let manager = SocketChannel::new(ours).expect("a channel");
    assert!(matches!(
        RingChannel::accept(manager),
        Err(ChannelError::NoRings(ring::HandshakeError::NotRings))
    ));
}

#[test]
fn whether_an_answer_is_wanted_arrives_too() {
    let mut kept = Kept::default();
    let request = Request::StreamWait {
        stream: 1,
        event: 2,
    };
    for is_quiet in [true, false, true] {
        match is_quiet {
            true => Frame::send_quietly(&mut kept, &request, &[7]).expect("sent"),
            false => Frame::send(&mut kept, &request, &[7]).expect("sent"),
        }
        let mut frame = Frame::default();
        let read: Request = frame.receive(&mut kept).expect("a request");
        assert_eq!((&read, frame.payload()), (&request, &[7][..]));
        assert_eq!(frame.is_quiet(), is_quiet);
    }
}
