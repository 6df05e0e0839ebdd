//! Manager and client as two processes: this program starts itself as the
//! other one, with `peer ROLE SOCKET` as its arguments. Each process has one
//! thread where it counts its descriptors, so the counts are exact.

mod support;

use ring::{Endpoint, Error, ExchangeError, HandshakeError, accept, connect};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use support::{LONG, Met, Random, Vandal, endure, hello, layout};

/// What a process does with a socket's path.
type Role = fn(&Path);

/// What the other process does.
const ROLES: [(&str, Role); 9] = [
    ("ask", ask),
    ("idle", idle),
    ("flood", flood),
    ("hold", hold),
    ("give-away", give_away),
    ("half", half),
    ("vandal", vandal),
    ("descriptors", descriptors),
    ("manager", manager),
];

/// What is tested.
const TESTS: [(&str, fn()); 9] = [
    ("two_processes_talk_and_share_bulk_data", talk),
    ("a_peer_that_is_killed_wakes_a_receiver", killed_idle),
    ("a_peer_that_is_killed_wakes_a_sender", killed_full),
    (
        "frames_are_whole_whenever_the_sender_is_killed",
        killed_sending,
    ),
    (
        "a_client_that_died_is_gone_though_its_socket_lives",
        given_away,
    ),
    (
        "clients_killed_in_the_handshake_leave_nothing",
        killed_in_handshake,
    ),
    ("a_hostile_process_leaves_nothing", vandalized),
    ("floods_of_descriptors_leave_nothing", flooded),
    ("a_manager_that_is_killed_is_gone", manager_killed),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [peer, role, socket] = &arguments[..]
        && peer == "peer"
    {
        let role = ROLES.iter().find(|(name, _)| name == role).expect("role");
        role.1(Path::new(socket));
        return ExitCode::SUCCESS;
    }
    // As the standard harness: words choose tests, options do not matter.
    let words: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    if arguments.iter().any(|a| a == "--list") {
        for (name, _) in TESTS {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let (mut passed, mut failed, mut filtered) = (0, 0, 0);
    for (name, test) in TESTS {
        if !words.is_empty() && !words.iter().any(|word| name.contains(*word)) {
            filtered += 1;
            continue;
        }
        let ok = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        *if ok { &mut passed } else { &mut failed } += 1;
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; \
         {filtered} filtered out"
    );
    ExitCode::from(u8::from(failed > 0))
}

/// A process in a role; killed when it is dropped.
struct Peer(Child);

impl Peer {
    fn start(role: &str, socket: &Path) -> Peer {
        let own = std::env::current_exe().unwrap();
        let mut command = Command::new(own);
        command.args(["peer", role]).arg(socket);
        Peer(command.stdin(Stdio::null()).spawn().unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn succeeds(&mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A manager's listening socket.
struct Door {
    listener: UnixListener,
    folder: tempfile::TempDir,
}

impl Door {
    fn new() -> Door {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        Door { listener, folder }
    }

    fn start(&self, role: &str) -> Peer {
        Peer::start(role, &self.folder.path().join("socket"))
    }

    fn socket(&self) -> UnixStream {
        self.listener.accept().unwrap().0
    }

    /// The connection of a process in a role.
    fn admit(&self, role: &str) -> (Peer, Endpoint) {
        let peer = self.start(role);
        let end = accept(self.socket(), &layout(), LONG).unwrap();
        (peer, end)
    }
}

fn enter(socket: &Path) -> Endpoint {
    connect(UnixStream::connect(socket).unwrap(), LONG).unwrap()
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|l| l.contains("ringfence-ring"))
        .count()
}

/// Runs something that must leave no descriptor and no mapping behind.
fn leaves_nothing(action: impl FnOnce()) {
    let before = (open_descriptors(), mappings());
    action();
    assert_eq!((open_descriptors(), mappings()), before);
}

fn sleep_long() -> ! {
    loop {
        std::thread::sleep(LONG);
    }
}

const QUESTIONS: u64 = 2000;

fn ask(socket: &Path) {
    let mut end = enter(socket);
    let mut chunks = ring::Chunks::new(end.staging.size());
    let mut random = Random(7);
    let mut answer = Vec::new();
    for _ in 0..QUESTIONS {
        let length = random.below(5000);
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        let offset = chunks.take(length).unwrap();
        let chunk = end.staging.chunk(offset, length).unwrap();
        chunk.write(&bytes).unwrap();
        let question = [offset.to_le_bytes(), length.to_le_bytes()].concat();
        end.sender.send(&question, Some(LONG)).unwrap();
        end.receiver.receive(&mut answer, Some(LONG)).unwrap();
        assert_eq!(answer, question);
        let mut back = vec![0; bytes.len()];
        chunk.read(&mut back).unwrap();
        assert!(back.iter().zip(&bytes).all(|(a, b)| *a == !b));
        chunks.give_back(offset).unwrap();
    }
}

fn talk() {
    leaves_nothing(|| {
        let (mut peer, mut end) = Door::new().admit("ask");
        let known = end.peer().credentials();
        assert_eq!(known.pid, Some(peer.0.id()));
        assert_eq!(known.uid, rustix::process::geteuid().as_raw());
        let (mut frame, mut answered) = (Vec::new(), 0);
        loop {
            match end.receiver.receive(&mut frame, Some(LONG)) {
                Ok(()) => {}
                Err(Error::Gone) => break,
                Err(error) => panic!("{error}"),
            }
            let number = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().unwrap());
            let chunk = end.staging.chunk(number(0), number(8)).unwrap();
            let mut bytes = vec![0; chunk.length()];
            chunk.read(&mut bytes).unwrap();
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
            chunk.write(&bytes).unwrap();
            end.sender.try_send(&frame).unwrap();
            answered += 1;
        }
        peer.succeeds();
        assert_eq!(answered, QUESTIONS);
    });
}

fn idle(socket: &Path) {
    let _end = enter(socket);
    sleep_long();
}

/// Runs a wait without a time of its own, kills the peer meanwhile, and expects
/// that the wait ends soon.
fn ends_when_killed(peer: Peer, wait: impl FnOnce() -> Result<(), Error>) {
    let killer = std::thread::spawn(move || {
        let mut peer = peer;
        std::thread::sleep(Duration::from_millis(300));
        peer.kill();
        Instant::now()
    });
    assert_eq!(wait(), Err(Error::Gone));
    let after = killer.join().unwrap().elapsed();
    // The slice, and what a busy machine needs.
    assert!(
        after < ring::LAST_SLICE + Duration::from_secs(5),
        "{after:?}"
    );
}

fn killed_idle() {
    leaves_nothing(|| {
        let (peer, mut end) = Door::new().admit("idle");
        let mut frame = Vec::new();
        let alive = end.receiver.receive(&mut frame, Some(ring::LAST_SLICE));
        assert_eq!(alive, Err(Error::TimedOut(ring::LAST_SLICE)));
        ends_when_killed(peer, || end.receiver.receive(&mut frame, None));
    });
}

fn killed_full() {
    leaves_nothing(|| {
        let (peer, mut end) = Door::new().admit("idle");
        while end.sender.try_send(&[1; 500]).is_ok() {}
        assert_eq!(end.sender.try_send(&[1; 500]), Err(Error::Full));
        ends_when_killed(peer, || end.sender.send(&[1; 500], None));
    });
}

/// Frames that say their number and length.
fn flood(socket: &Path) {
    let mut end = enter(socket);
    for number in 0u64.. {
        let mut frame = vec![number as u8; 8 + (number * 37 % 900) as usize];
        frame[..8].copy_from_slice(&number.to_le_bytes());
        end.sender.send(&frame, Some(LONG)).unwrap();
    }
}

fn killed_sending() {
    let door = Door::new();
    let mut random = Random(11);
    leaves_nothing(|| {
        for _ in 0..10 {
            let (mut peer, mut end) = door.admit("flood");
            let until = random.below(3000);
            let mut frame = Vec::new();
            let mut number = 0u64;
            let ended = loop {
                if number == until {
                    peer.kill();
                }
                if let Err(error) = end.receiver.receive(&mut frame, Some(LONG)) {
                    break error;
                }
                assert_eq!(frame.len() as u64, 8 + number * 37 % 900);
                assert_eq!(frame[..8], number.to_le_bytes());
                assert!(frame[8..].iter().all(|byte| *byte == number as u8));
                number += 1;
            };
            assert_eq!(ended, Error::Gone);
            assert!(number >= until);
        }
    });
}

/// Has another's socket as its standard input, and keeps it until that is
/// written to.
fn hold(_: &Path) {
    let _ = std::io::stdin().read(&mut [0]);
}

fn give_away(socket: &Path) {
    let mut end = enter(socket);
    let copy = end.peer().socket().try_clone().unwrap();
    let mut heir = Command::new(std::env::current_exe().unwrap())
        .args(["peer", "hold", "-"])
        .stdin(std::os::fd::OwnedFd::from(copy))
        .spawn()
        .unwrap();
    end.sender.send(&heir.id().to_le_bytes(), None).unwrap();
    // This process is killed first.
    heir.wait().unwrap();
}

fn given_away() {
    leaves_nothing(|| {
        let (peer, mut end) = Door::new().admit("give-away");
        let mut frame = Vec::new();
        end.receiver.receive(&mut frame, Some(LONG)).unwrap();
        let heir = u32::from_le_bytes(frame[..].try_into().unwrap());
        // The kernels that Ringfence supports have descriptors of processes.
        assert!(end.peer().process().is_some());
        ends_when_killed(peer, || end.receiver.receive(&mut frame, None));
        assert!(Path::new(&format!("/proc/{heir}")).exists());
        // Closes the connection, so that the heir ends, too.
        drop(end);
        let start = Instant::now();
        while Path::new(&format!("/proc/{heir}/fd/0")).exists() {
            assert!(start.elapsed() < LONG, "{heir} does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

fn half(socket: &Path) {
    let socket = UnixStream::connect(socket).unwrap();
    support::send(&socket, &hello()[..9], &[]);
    sleep_long();
}

fn killed_in_handshake() {
    let door = Door::new();
    leaves_nothing(|| {
        let mut peer = door.start("half");
        let socket = door.socket();
        // It has sent its half.
        let mut polled = [rustix::event::PollFd::new(
            &socket,
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut polled, None).unwrap();
        peer.kill();
        match accept(socket, &layout(), LONG).map(drop) {
            Err(HandshakeError::Exchange(ExchangeError::Truncated { got: 9, .. }))
            | Err(HandshakeError::Peer(ring::PeerError::Ended)) => {}
            other => panic!("{other:?}"),
        }
    });
    // The others are not disturbed.
    leaves_nothing(|| drop(door.admit("idle")));
}

const VANDAL_SECONDS: u64 = 4;

fn vandal(socket: &Path) {
    let start = Instant::now();
    let mut seed = 1;
    while start.elapsed() < Duration::from_secs(VANDAL_SECONDS) {
        let Ok(socket) = UnixStream::connect(socket) else {
            continue;
        };
        let mut vandal = Vandal::connect(socket, 0x1234_5678_9abc * seed);
        seed += 1;
        let mut closed = [0];
        vandal.socket.set_nonblocking(true).unwrap();
        while !matches!((&vandal.socket).read(&mut closed), Ok(0)) {
            for _ in 0..50 {
                vandal.act();
            }
        }
    }
}

fn vandalized() {
    let door = Door::new();
    leaves_nothing(|| {
        let mut peer = door.start("vandal");
        let mut met = Met::default();
        door.listener.set_nonblocking(true).unwrap();
        while peer.0.try_wait().unwrap().is_none() {
            let Ok((socket, _)) = door.listener.accept() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let end = accept(socket, &layout(), LONG).unwrap();
            endure(end, Duration::from_millis(200), &mut met);
        }
        peer.succeeds();
        assert!(met.sessions > 1 && met.corrupt > 0, "{met:?}");
    });
}

fn descriptors(socket: &Path) {
    let null = std::fs::File::open("/dev/null").unwrap();
    for count in [1, 10, 100, 253] {
        let socket = UnixStream::connect(socket).unwrap();
        support::send(&socket, &hello(), &vec![null.as_fd(); count]);
        // Until the manager closes.
        let _ = (&socket).read(&mut [0]);
    }
}

fn flooded() {
    let door = Door::new();
    leaves_nothing(|| {
        let mut peer = door.start("descriptors");
        for _ in 0..4 {
            let result = accept(door.socket(), &layout(), LONG).map(drop);
            assert!(matches!(
                result,
                Err(HandshakeError::Exchange(ExchangeError::Descriptors {
                    expected: 0
                }))
            ));
        }
        peer.succeeds();
    });
}

fn manager(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    let _end = accept(listener.accept().unwrap().0, &layout(), LONG).unwrap();
    sleep_long();
}

fn manager_killed() {
    leaves_nothing(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let peer = Peer::start("manager", &path);
        let start = Instant::now();
        let socket = loop {
            match UnixStream::connect(&path) {
                Ok(socket) => break socket,
                Err(error) => assert!(start.elapsed() < LONG, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut end = connect(socket, LONG).unwrap();
        assert_eq!(end.peer().credentials().pid, Some(peer.0.id()));
        ends_when_killed(peer, || end.receiver.receive(&mut Vec::new(), None));
    });
}
