//! Messages of recorded sessions with other bytes in them.

use super::mutate::{Random, frame_of, kind, mutated};
use super::neighbour::Neighbour;
use super::process::Program;
use super::raw::{Raw, hello};
use super::record::{self, Recorded, Session};
use super::{Bench, Made};
use anyhow::{Context, Result, ensure};
use protocol::{Channel, Frame, Place, Reply, Request, SocketChannel};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Messages of one connection at most: on the CPU device, and on a GPU, where a
/// partition and its code take longer to make.
const IN_A_CONNECTION: [usize; 2] = [250, 1000];
/// Messages that may be sent for one type, for one that must arrive.
const TRIES: u64 = 40;

/// The session of a program that calls all that tenants have.
fn recorded(bench: &Bench<'_>) -> Result<Session> {
    let path = bench.manager.folder().join("recorded.sock");
    let recording = record::start(&path, &bench.manager.socket())?;
    let places = &bench.options.places;
    let mut command = Command::new(&places.ringfence);
    command
        .args(["run", "--device", "tenant", "--socket"])
        .arg(&path)
        .arg("--")
        .arg(places.programs.join("attacker"))
        .args(["tour", "all"]);
    let mut program = Program::start(&mut command)?;
    program.wait_for(Duration::from_secs(60), |program| program.ended().is_some());
    ensure!(
        program.ended().is_some_and(|status| status.success()),
        "the program that is recorded fails: {}",
        program.error()
    );
    let session = recording.join();
    let session = session.map_err(|_| anyhow::anyhow!("the recording failed"))??;
    let _ = std::fs::remove_file(&path);
    Ok(session)
}

/// The session's request in a partition that begins elsewhere.
fn moved(recorded: &Recorded, from: u64, to: u64) -> Recorded {
    let shift = |address: u64| match address.wrapping_sub(from) {
        offset if offset < 1 << 32 => to.wrapping_add(offset),
        _ => address,
    };
    let place = |place: &mut Place| place.address = shift(place.address);
    let mut out = recorded.clone();
    match &mut out.request {
        Request::Free { address } | Request::FreeBehind { address, .. } => {
            *address = shift(*address);
        }
        Request::Write { to, .. }
        | Request::WriteStaged { to, .. }
        | Request::WriteBehind { to, .. } => place(to),
        Request::Read { from, .. }
        | Request::ReadStaged { from, .. }
        | Request::ReadBehind { from, .. } => place(from),
        Request::Fill { place: at, .. } => place(at),
        Request::Copy { to, from, .. } => {
            place(to);
            place(from);
        }
        Request::Launch { parameters, .. } => {
            for word in parameters.chunks_exact_mut(8) {
                if let Ok(bytes) = <[u8; 8]>::try_from(&*word) {
                    let moved = shift(u64::from_le_bytes(bytes));
                    word.copy_from_slice(&moved.to_le_bytes());
                }
            }
        }
        _ => {}
    }
    out
}

/// What has arrived.
struct Fuzz<'s> {
    session: &'s Session,
    socket: &'s Path,
    random: Random,
    sent: u64,
    /// By type: messages that were answered.
    arrived: BTreeMap<String, u64>,
    leaked: u64,
}

impl Fuzz<'_> {
    /// A tenant in the middle of the session.
    fn connect(&mut self) -> Result<Raw> {
        let mut raw = Raw::connect(self.socket, 0)?;
        let base = raw.welcome.base;
        let length = self.session.requests.len();
        // Some have nothing yet, some have all that the session had.
        let until = match self.random.below(4) {
            0 => 1 + self.random.below(length - 1),
            _ => length * 7 / 8,
        };
        for recorded in &self.session.requests[1..until.max(1)] {
            let Recorded { request, payload } = moved(recorded, self.session.base, base);
            if request != Request::Reset && raw.ask(&request, &payload).is_err() {
                break;
            }
        }
        Ok(raw)
    }

    /// Sends one message of a type to a tenant of its own, or to one that is
    /// there; whether that is still there.
    fn message(&mut self, raw: &mut Raw, recorded: &Recorded) -> Result<bool> {
        let moved = moved(recorded, self.session.base, raw.welcome.base);
        if moved.request == Request::Load {
            // What is mutated is the code.
            let upload = self.session.requests.iter();
            let mut upload = upload.filter(|one| one.request == Request::Upload);
            let nth = self.random.below(upload.clone().count());
            let upload = upload.nth(nth).context("no code was recorded")?;
            let bytes = mutated(&Request::Upload, &upload.payload, &mut self.random)?;
            if Frame::parse::<Request>(bytes.clone()).is_ok() && raw.channel.send(&[&bytes]).is_ok()
            {
                let _ = raw.frame.receive::<Reply>(&mut raw.channel);
            }
        }
        let is_bare = frame_of(&moved.request, &[])?.len() <= 5;
        let bytes = match is_bare {
            // A type without fields: sent as it is, with any payload.
            true => frame_of(
                &moved.request,
                &vec![self.random.next() as u8; self.random.below(64)],
            )?,
            false => mutated(&moved.request, &moved.payload, &mut self.random)?,
        };
        // What is no message ends its connection: a few of them will do.
        let meant = Frame::parse::<Request>(bytes.clone()).ok();
        if meant.is_none() && self.random.below(500) > 0 {
            return Ok(true);
        }
        self.sent += 1;
        if raw.channel.send(&[&bytes]).is_err() {
            return Ok(false);
        }
        match raw.frame.receive::<Reply>(&mut raw.channel) {
            Ok(Reply::Refused(_)) | Err(_) => return Ok(false),
            Ok(Reply::Busy) if matches!(meant, Some((Request::Load, _))) => {
                raw.ask(&Request::Load, &[])?;
            }
            Ok(_) => {}
        }
        if let Some((request, _)) = meant {
            *self.arrived.entry(kind(&request)).or_default() += 1;
            self.leaked += super::forged::secrets(raw.frame.payload());
        }
        Ok(true)
    }

    /// A first message that is another one; whether it was answered by more than
    /// that it is none.
    fn greeting(&mut self) -> Result<()> {
        // Most ask for more than there is: a partition takes its time.
        let memory = match self.random.below(16) {
            0 => 64 << 20,
            _ => u64::MAX,
        };
        let first = Request::Hello(hello(memory));
        let bytes = mutated(&first, &[], &mut self.random)?;
        self.sent += 1;
        let is_hello = Frame::parse::<Request>(bytes.clone()).is_ok();
        let mut channel = SocketChannel::new(UnixStream::connect(self.socket)?)?;
        channel.set_patience(Some(Duration::from_secs(20)))?;
        if channel.send(&[&bytes]).is_err() {
            return Ok(());
        }
        if Frame::default().receive::<Reply>(&mut channel).is_ok() && is_hello {
            *self.arrived.entry("Hello".into()).or_default() += 1;
        }
        Ok(())
    }
}

/// Mutates each message of a session until enough of each type have arrived.
///
/// # Errors
///
/// Nothing can be recorded, or the manager takes no tenant.
pub fn sessions(bench: &Bench<'_>, _neighbour: &mut Neighbour) -> Result<Made> {
    let session = recorded(bench)?;
    let mut by_type: BTreeMap<String, Vec<&Recorded>> = BTreeMap::new();
    for recorded in &session.requests {
        by_type
            .entry(kind(&recorded.request))
            .or_default()
            .push(recorded);
    }
    ensure!(
        by_type.len() == Request::TYPES,
        "the recorded session has {} of {} types: {:?}",
        by_type.len(),
        Request::TYPES,
        by_type.keys()
    );
    let wanted = bench.options.messages();
    let socket = bench.manager.socket();
    let nth = bench.fuzzed.replace(bench.fuzzed.get() + 1);
    let mut fuzz = Fuzz {
        session: &session,
        socket: &socket,
        random: Random(0x5eed_1234_5678_9abd + nth),
        sent: 0,
        arrived: BTreeMap::new(),
        leaked: 0,
    };
    let arrived = |fuzz: &Fuzz<'_>, name: &str| fuzz.arrived.get(name).copied().unwrap_or(0);
    let limit = wanted * TRIES;
    for _ in 0..limit {
        if arrived(&fuzz, "Hello") >= wanted {
            break;
        }
        fuzz.greeting()?;
    }
    let mut raw = fuzz.connect()?;
    let mut in_connection = 0;
    let most = IN_A_CONNECTION[usize::from(bench.options.is_on_gpu())];
    for (name, all) in by_type.iter().filter(|(name, _)| *name != "Hello") {
        for _ in 0..limit {
            if arrived(&fuzz, name) >= wanted {
                break;
            }
            let recorded = all[fuzz.random.below(all.len())];
            in_connection += 1;
            if !fuzz.message(&mut raw, recorded)? || in_connection > most {
                raw = fuzz.connect()?;
                in_connection = 0;
            }
        }
    }
    let least = by_type.keys().map(|name| arrived(&fuzz, name)).min();
    let mut made = Made {
        attempts: fuzz.sent,
        leaked: fuzz.leaked,
        ..Made::default()
    };
    made.more.insert("types".into(), json!(by_type.len()));
    made.more.insert("least_of_a_type".into(), json!(least));
    Ok(made)
}

/// Bytes that are no messages, over the socket and over the rings.
///
/// # Errors
///
/// The manager takes no tenant.
pub fn garbage(bench: &Bench<'_>, _neighbour: &mut Neighbour) -> Result<Made> {
    let socket = bench.manager.socket();
    let mut random = Random(0x6a5b_ee75);
    let mut made = Made::default();
    for round in 0..200 {
        let length = random.below(64);
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        made.attempts += 1;
        if round % 2 == 0 {
            let mut stream = UnixStream::connect(&socket)?;
            let _ = stream.write_all(&bytes);
        } else {
            let mut raw = Raw::connect(&socket, 64 << 20)?;
            let _ = raw.channel.send(&[&bytes]);
            let _ = raw.frame.receive::<Reply>(&mut raw.channel);
        }
    }
    Ok(made)
}
