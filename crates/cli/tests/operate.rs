//! A manager in operation: what one file says, what a tenant may have, what hostile
//! code may take of the manager's time and memory, and what the administrator sees.
//! Each attack is made beside a neighbour that goes on.

mod support;

use fatbin::{Compression, Kind, NewEntry, Target};
use protocol::{
    Channel, Frame, Hello, MAGIC, Place, Reply, Request, RingChannel, SocketChannel, VERSION,
};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::Scratch;

/// A manager, until this is dropped.
struct Manager {
    child: Child,
    socket: PathBuf,
    /// What it has written.
    log: Arc<Mutex<String>>,
}

impl Manager {
    /// One that is ready, with the content of its file.
    fn start(scratch: &Scratch, file: &str) -> Manager {
        let socket = scratch.path("manager.sock");
        let config = scratch.write("manager.toml", format!("device = \"cpu\"\n{file}"));
        let mut command = scratch.command(["manager", "--config"]);
        command.arg(config).arg("--socket").arg(&socket);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let lines = BufReader::new(child.stderr.take().unwrap());
        let written = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                *written.lock().unwrap() += &(line + "\n");
            }
        });
        let manager = Manager { child, socket, log };
        manager.wait_for("takes tenants at");
        manager
    }

    #[track_caller]
    fn wait_for(&self, part: &str) {
        let start = Instant::now();
        while !self.log().contains(part) {
            let log = self.log();
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "no `{part}` in: {log}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The process that owns the device.
    fn worker(&self) -> u32 {
        match self.children("device-worker")[..] {
            [worker] => worker,
            ref others => panic!("{others:?}"),
        }
    }

    /// Processes of the manager that were started with this subcommand.
    fn children(&self, subcommand: &str) -> Vec<u32> {
        let mut all = children(self.child.id());
        all.retain(|process| {
            let line = std::fs::read_to_string(format!("/proc/{process}/cmdline"));
            line.is_ok_and(|line| line.split('\0').nth(1) == Some(subcommand))
        });
        all
    }
}

/// The children of all threads of a process.
fn children(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let lists = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let numbers = list.split_whitespace().map(|number| number.parse());
            numbers.map(Result::unwrap).collect::<Vec<u32>>()
        })
        .collect()
}

fn kill(process: u32) {
    let number = process.to_string();
    let status = Command::new("kill").args(["-9", &number]).status();
    assert!(status.unwrap().success());
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A tenant that speaks the protocol itself.
struct Raw {
    channel: RingChannel,
    frame: Frame,
}

fn connect(socket: &Path, memory: u64) -> Result<Raw, String> {
    let stream = UnixStream::connect(socket).unwrap();
    let mut channel = SocketChannel::new(stream).unwrap();
    let hello = Request::Hello(Hello {
        magic: MAGIC,
        version: VERSION,
        name: "raw".into(),
        memory,
    });
    Frame::send(&mut channel, &hello, &[]).unwrap();
    match Frame::default().receive(&mut channel).unwrap() {
        Reply::Welcome(_) => {
            let mut channel = RingChannel::connect(channel).unwrap();
            channel.set_patience(Some(Duration::from_secs(60))).unwrap();
            Ok(Raw {
                channel,
                frame: Frame::default(),
            })
        }
        Reply::Refused(why) => Err(why),
        other => panic!("{other:?}"),
    }
}

impl Raw {
    fn ask(&mut self, request: &Request, payload: &[u8]) -> Reply {
        loop {
            Frame::send(&mut self.channel, request, payload).unwrap();
            let reply = self.frame.receive(&mut self.channel).unwrap();
            if reply != Reply::Busy {
                return reply;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Uploads and loads a module.
    fn load(&mut self, code: &[u8]) -> Reply {
        for piece in code.chunks(1 << 20) {
            match self.ask(&Request::Upload, piece) {
                Reply::Done => {}
                other => return other,
            }
        }
        self.ask(&Request::Load, &[])
    }

    /// Asks for the same until it is refused: how often it was not, and why it was.
    fn until_refused(&mut self, request: &Request, code: &[u8]) -> (u64, String) {
        for count in 0..100_000 {
            let reply = match code {
                [] => self.ask(request, &[]),
                code => self.load(code),
            };
            if let Reply::Failed { code, message } = reply {
                assert_eq!(code, OUT_OF_MEMORY, "{message}");
                return (count, message);
            }
        }
        panic!("there is no limit");
    }
}

/// `CUDA_ERROR_OUT_OF_MEMORY`
const OUT_OF_MEMORY: u32 = 2;
/// `CUDA_ERROR_NOT_PERMITTED`
const NOT_PERMITTED: u32 = 800;

/// A module with a kernel of this name.
fn module(name: &str) -> Vec<u8> {
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n\
         .visible .entry {name}(.param .u64 a) {{ ret; }}\n\0"
    )
    .into_bytes()
}

/// A tenant whose results are the same in each of its rounds, of which each loads a
/// module, until this is dropped.
struct Neighbour {
    thread: Option<std::thread::JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    /// Milliseconds of the longest round.
    longest: Arc<AtomicU64>,
}

impl Neighbour {
    fn start(socket: &Path) -> Neighbour {
        let mut raw = connect(socket, 0).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let (rounds, longest) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let own = (
            Arc::clone(&is_over),
            Arc::clone(&rounds),
            Arc::clone(&longest),
        );
        let work = move || {
            let (is_over, rounds, longest) = own;
            let Reply::Address(address) = raw.ask(&Request::Allocate { size: 4096 }, &[]) else {
                panic!("no memory");
            };
            let place = Place::linear(address, 4096);
            let stream = 0;
            for round in 0u64.. {
                let start = Instant::now();
                let bytes = vec![round as u8; 4096];
                let to = place;
                assert_eq!(raw.ask(&Request::Write { stream, to }, &bytes), Reply::Done);
                let Reply::Loaded(loaded) = raw.load(&module(&format!("n{}", round % 16))) else {
                    panic!("its module is not loaded");
                };
                let module = loaded.module;
                assert_eq!(raw.ask(&Request::Unload { module }, &[]), Reply::Done);
                let from = place;
                assert_eq!(raw.ask(&Request::Read { stream, from }, &[]), Reply::Bytes);
                assert_eq!(raw.frame.payload(), &bytes[..]);
                longest.fetch_max(start.elapsed().as_millis() as u64, Ordering::Relaxed);
                rounds.fetch_add(1, Ordering::Relaxed);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        };
        Neighbour {
            thread: Some(std::thread::spawn(work)),
            is_over,
            rounds,
            longest,
        }
    }

    fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// It still works, and no round has taken longer than `most`.
    #[track_caller]
    fn goes_on(&self, most: Duration) {
        let before = self.rounds();
        let start = Instant::now();
        while self.rounds() < before + 3 {
            assert!(start.elapsed() < most, "the neighbour does not go on");
            std::thread::sleep(Duration::from_millis(5));
        }
        let longest = Duration::from_millis(self.longest.load(Ordering::Relaxed));
        assert!(longest < most, "a round has taken {longest:?}");
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().expect("the neighbour's results are right");
        }
    }
}

#[test]
fn each_quota_has_one_error_and_the_neighbour_goes_on() {
    let scratch = Scratch::new();
    let file = "
[limits]
memory-per-tenant = \"64m\"
tenants-per-user = 3
max-streams = 5
max-events = 6
max-modules = 7
max-kernels = 4
max-allocations = 8
max-code = \"64k\"
";
    let manager = Manager::start(&scratch, file);
    let neighbour = Neighbour::start(&manager.socket);
    let mut raw = connect(&manager.socket, 0).unwrap();
    let stream = Request::StreamCreate { is_blocking: true };
    let event = Request::EventCreate { is_timed: false };
    let allocate = |size| Request::Allocate { size };
    let refused = raw.until_refused(&stream, &[]);
    assert_eq!(
        (refused.0, &*refused.1),
        (5, "the tenant has too many streams")
    );
    assert_eq!(raw.until_refused(&event, &[]).0, 6);
    assert_eq!(raw.until_refused(&allocate(1), &[]).0, 8);
    let refused = raw.until_refused(&allocate(65 << 20), &[]);
    assert_eq!(refused.0, 0);
    assert!(
        refused.1.contains("of the tenant's 67108864 bytes"),
        "{}",
        refused.1
    );
    let refused = raw.until_refused(&Request::Upload, &vec![b' '; 65 << 10]);
    assert_eq!(refused.0, 0);
    assert!(refused.1.contains("65536 bytes"), "{}", refused.1);
    // Kernels are counted before modules here.
    let refused = raw.until_refused(&Request::Load, &module("k"));
    assert_eq!(
        (refused.0, &*refused.1),
        (4, "the tenant has too many kernels")
    );
    let empty = b".version 8.0\n.target sm_75\n.address_size 64\n\0";
    assert_eq!(raw.until_refused(&Request::Load, empty).0, 3);
    let third = connect(&manager.socket, 0).unwrap();
    let why = connect(&manager.socket, 0).err().unwrap();
    assert!(why.contains("has 3 tenants, and may have no more"), "{why}");
    drop(third);
    let why = connect(&manager.socket, 65 << 20).err().unwrap();
    assert!(why.contains("a tenant may have 67108864"), "{why}");
    neighbour.goes_on(Duration::from_secs(20));
    let log = manager.log();
    for part in [
        "is refused: the tenant has too many streams",
        "is refused: the tenant has too many events",
        "is refused: the tenant has too many kernels",
        "is refused: the module is more than 65536 bytes large",
        "was not admitted: user",
    ] {
        assert!(log.contains(part), "`{part}` is not in: {log}");
    }
}

/// PTX of a kernel with this body.
fn kernel(body: &str) -> Vec<u8> {
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 a) {{\n{body}\nret; }}\n\0"
    )
    .into_bytes()
}

/// A fat binary that is small, and large where it is unpacked.
fn bomb(compression: Compression) -> Vec<u8> {
    fatbin::write(&[NewEntry {
        kind: Kind::Ptx,
        arch: 75,
        target: Target::Generic,
        version: (8, 0),
        identifier: None,
        compression,
        payload: vec![b' '; 1 << 30],
    }])
}

/// Code that takes as much of its reader as it can.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let many =
        |count: usize, one: &dyn Fn(usize) -> String| -> String { (0..count).map(one).collect() };
    let scopes = "{".repeat(300_000) + &"}".repeat(300_000);
    let adds = many(400_000, &|n| format!("add.u32 %r{}, %r{}, 1;\n", n + 1, n));
    let chain = format!(".reg .b32 %r<400002>; mov.u32 %r0, 1;\n{adds}");
    let labels = many(60_000, &|n| {
        format!("L{n}: @%p bra L{};\n", (n * 7919) % 60_000)
    });
    let labels = format!(".reg .pred %p; setp.eq.u32 %p, 1, 1;\n{labels}");
    let registers = many(200_000, &|n| format!(".reg .b64 %q{n};\n"));
    let stores = many(100_000, &|n| format!("st.global.u32 [%p+{}], 1;\n", 4 * n));
    let stores = format!(".reg .b64 %p; ld.param.u64 %p, [a];\n{stores}");
    let variables = many(100_000, &|n| format!(".global .u32 v{n} = 1;\n"));
    let functions = many(40_000, &|n| {
        format!(".func f{n}() {{ call f{}, (); ret; }}\n", n + 1)
    });
    let head = ".version 8.0\n.target sm_75\n.address_size 64\n";
    let brackets = format!(
        "{head}.global .u32 v[2] = {}1{};\n",
        "{".repeat(200_000),
        "}".repeat(200_000)
    );
    vec![
        ("zstd", bomb(Compression::Zstd)),
        ("lz4", bomb(Compression::Lz4)),
        ("blanks", vec![b' '; 60 << 20]),
        ("scopes", kernel(&scopes)),
        ("initializers", brackets.into_bytes()),
        ("a chain of values", kernel(&chain)),
        ("labels", kernel(&labels)),
        ("registers", kernel(&registers)),
        ("stores", kernel(&stores)),
        ("variables", format!("{head}{variables}").into_bytes()),
        ("functions", format!("{head}{functions}").into_bytes()),
    ]
}

/// Whatever the code takes, its own tenant gets an answer, and the neighbour loads its
/// modules beside it.
#[test]
fn no_code_stops_the_manager_or_a_neighbour() {
    let scratch = Scratch::new();
    let file = "
compile-time = 3
compile-memory = \"512m\"
compile-jobs = 2
";
    let manager = Manager::start(&scratch, file);
    let neighbour = Neighbour::start(&manager.socket);
    let mut ended = 0;
    for (what, code) in bombs() {
        let mut raw = connect(&manager.socket, 0).unwrap();
        let start = Instant::now();
        let reply = raw.load(&code);
        let took = start.elapsed();
        match &reply {
            Reply::Failed { code, message } => {
                let is_ended = message.contains("cannot be compiled: it takes more than");
                if is_ended {
                    assert_eq!(*code, NOT_PERMITTED, "{what}: {message}");
                    ended += 1;
                }
                assert!(message.len() <= 17 << 10, "{what}: {} bytes", message.len());
                println!("{what}: {took:?}: error {code}: {:.120}", message);
            }
            // What it can do in time it does.
            Reply::Loaded(_) => println!("{what}: {took:?}: loaded"),
            other => panic!("{what}: {other:?}"),
        }
        // Two steps, each of which may last twice its processor time.
        assert!(took < Duration::from_secs(60), "{what}: {took:?}");
        // The tenant itself can go on.
        assert!(
            matches!(raw.load(&module("after")), Reply::Loaded(_)),
            "{what}"
        );
        neighbour.goes_on(Duration::from_secs(40));
    }
    assert!(ended >= 1, "those with a quadratic search reach a limit");
    let log = manager.log();
    assert!(
        log.contains("is refused: the module cannot be compiled"),
        "{log}"
    );
}

/// Many tenants with code that takes all of its time, at once: a neighbour's module has
/// its turn.
#[test]
fn turns_are_in_order() {
    let scratch = Scratch::new();
    let file = "compile-time = 1\ncompile-memory = \"1g\"\ncompile-jobs = 2\n";
    let manager = Manager::start(&scratch, file);
    let neighbour = Neighbour::start(&manager.socket);
    let adds: String = (0..400_000)
        .map(|n| format!("add.u32 %r{}, %r{n}, 1;\n", n + 1))
        .collect();
    let code = kernel(&format!(".reg .b32 %r<400002>; mov.u32 %r0, 1;\n{adds}"));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (code, socket) = (&code, &manager.socket);
            scope.spawn(move || {
                let mut raw = connect(socket, 0).unwrap();
                for round in 0..2 {
                    // Each another one, so that none is there already.
                    let mut own = vec![b'\n'; 2 * number + round];
                    own.extend(code);
                    let reply = raw.load(&own);
                    assert!(
                        matches!(reply, Reply::Failed { .. } | Reply::Loaded(_)),
                        "{reply:?}"
                    );
                }
            });
        }
        neighbour.goes_on(Duration::from_secs(60));
    });
    neighbour.goes_on(Duration::from_secs(60));
}

/// What owns the device ends: its tenants are told, and a new one takes those that come,
/// also while it starts.
#[test]
fn the_process_that_owns_the_device_is_replaced() {
    let scratch = Scratch::new();
    let manager = Manager::start(&scratch, "");
    let first = manager.worker();
    let mut tenant = connect(&manager.socket, 0).unwrap();
    let request = Request::Allocate { size: 4096 };
    assert!(matches!(tenant.ask(&request, &[]), Reply::Address(_)));
    kill(first);
    // (Until it has ended, it may still take who connects.)
    manager.wait_for("error: the process that owned the device has ended (signal: 9");
    // Who comes now waits, and is not refused.
    let mut next = connect(&manager.socket, 0).unwrap();
    assert!(matches!(next.ask(&request, &[]), Reply::Address(_)));
    assert_ne!(manager.worker(), first);
    let sent = Frame::send(&mut tenant.channel, &request, &[]);
    let answer = sent.and_then(|()| tenant.frame.receive::<Reply>(&mut tenant.channel));
    assert!(answer.is_err(), "{answer:?}");
    manager.wait_for("a new process owns Ringfence CPU device, and takes tenants");
    // Nobody is left over when the manager is killed.
    let second = manager.worker();
    drop(manager);
    let start = Instant::now();
    while Path::new(&format!("/proc/{second}")).exists() {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(Manager::start(&scratch, ""));
}

/// A tenant that goes while its module is compiled takes the compilation with it; so does
/// the process that owns the device.
#[test]
fn compilations_go_with_their_tenant_and_with_the_device() {
    let scratch = Scratch::new();
    let manager = Manager::start(&scratch, "compile-time = 1000\ncompile-memory = \"2g\"\n");
    let workers = || manager.children("compile-worker");
    let labels: String = (0..300_000u64)
        .map(|n| format!("L{n}: @%p bra L{};\n", (n * 7919) % 300_000))
        .collect();
    let code = kernel(&format!(".reg .pred %p; setp.eq.u32 %p, 1, 1;\n{labels}"));
    let begin = || {
        let mut raw = connect(&manager.socket, 0).unwrap();
        for piece in code.chunks(1 << 20) {
            assert_eq!(raw.ask(&Request::Upload, piece), Reply::Done);
        }
        Frame::send(&mut raw.channel, &Request::Load, &[]).unwrap();
        let reply: Reply = raw.frame.receive(&mut raw.channel).unwrap();
        assert_eq!(reply, Reply::Busy);
        raw
    };
    let until = |is_so: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(20), "{:?}", workers());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let raw = begin();
    until(&|| workers().len() == 1);
    drop(raw);
    until(&|| workers().is_empty());
    let _raw = begin();
    until(&|| workers().len() == 1);
    kill(manager.worker());
    until(&|| workers().is_empty());
    // The next one compiles, too.
    manager.wait_for("a new process owns Ringfence CPU device, and takes tenants");
    let mut raw = connect(&manager.socket, 64 << 20).unwrap();
    assert!(matches!(raw.load(&module("next")), Reply::Loaded(_)));
}

#[test]
fn weights_need_turns() {
    let scratch = Scratch::new();
    let weighed = "[users.4000]\nweight = 3\n";
    let file = scratch.write("weights.toml", format!("device = \"cpu\"\n{weighed}"));
    let socket = scratch.path("other.sock");
    let paths = [&file, &socket].map(|path| path.to_str().unwrap());
    let outcome = scratch.ringfence(["manager", "--config", paths[0], "--socket", paths[1]]);
    outcome.assert_error(&["give --stall-time"]);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    // With turns, the administrator sees what each has.
    let user = rustix::process::getuid().as_raw();
    let manager = Manager::start(
        &scratch,
        &format!("stall-time = 9\n[users.{user}]\nweight = 3\n"),
    );
    let _raw = connect(&manager.socket, 64 << 20).unwrap();
    let socket = manager.socket.to_str().unwrap();
    let outcome = scratch.ringfence(["tenants", "--json", "--socket", socket]);
    let overview: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(overview["tenants"][0]["weight"], 3);
}

#[test]
fn compiled_modules_outlive_a_manager() {
    let scratch = Scratch::new();
    let folder = scratch.path("cache");
    let file = format!("cache-dir = \"{}\"\n", folder.display());
    // What the next manager says after it has loaded the module.
    let totals = || {
        let manager = Manager::start(&scratch, &file);
        let mut raw = connect(&manager.socket, 64 << 20).unwrap();
        assert!(matches!(raw.load(&module("kept")), Reply::Loaded(_)));
        let socket = manager.socket.to_str().unwrap();
        let outcome = scratch.ringfence(["tenants", "--json", "--socket", socket]);
        let overview: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let totals = &overview["totals"];
        let of = |key: &str| totals[key].as_u64().unwrap();
        let of_store = |key: &str| totals["store"][key].as_u64().unwrap();
        (
            (of("compiled"), of("cached")),
            ["found", "missing", "damaged", "written"].map(of_store),
        )
    };
    assert_eq!(totals(), ((1, 0), [0, 1, 0, 1]));
    assert_eq!(totals(), ((0, 1), [1, 0, 0, 0]));
    let files = || {
        std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let kept = files().next().unwrap();
    assert_eq!(files().count(), 1);
    // Damage is as if it were not there.
    let mut bytes = std::fs::read(&kept).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&kept, bytes).unwrap();
    assert_eq!(totals(), ((1, 0), [0, 1, 1, 1]));
    assert_eq!(totals(), ((0, 1), [1, 0, 0, 0]));

    // A folder that others can write holds what others say.
    std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let cache = folder.to_str().unwrap();
    let socket = scratch.path("other.sock");
    let socket = socket.to_str().unwrap();
    let options = [
        "manager",
        "--device",
        "cpu",
        "--socket",
        socket,
        "--cache-dir",
        cache,
    ];
    let outcome = scratch.ringfence(options);
    outcome.assert_error(&["is open to others (mode 777)"]);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
}

#[test]
fn the_administrator_sees_who_is_there() {
    let scratch = Scratch::new();
    let metrics = scratch.path("metrics.sock");
    let file = format!(
        "metrics = \"{}\"\nlog-format = \"json\"\n",
        metrics.display()
    );
    let manager = Manager::start(&scratch, &file);
    let mut raw = connect(&manager.socket, 64 << 20).unwrap();
    raw.ask(&Request::Allocate { size: 1 << 20 }, &[]);
    assert!(matches!(raw.load(&module("first")), Reply::Loaded(_)));
    assert!(matches!(raw.load(&module("first")), Reply::Loaded(_)));
    raw.ask(&Request::Allocate { size: 1 << 40 }, &[]);
    let socket = manager.socket.to_str().unwrap();
    let outcome = scratch.ringfence(["tenants", "--json", "--socket", socket]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let overview: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let row = &overview["tenants"][0];
    assert_eq!(row["pid"], std::process::id());
    assert_eq!(row["program"], "raw");
    assert_eq!(row["memory_limit"], 64 << 20);
    assert_eq!(row["memory"], 1 << 20);
    assert_eq!((&row["kernels"], &row["refusals"]), (&2.into(), &1.into()));
    assert_eq!(overview["totals"]["compiled"], 1);
    assert_eq!(
        overview["totals"]["cached"], 1,
        "the same bytes are compiled once"
    );
    let outcome = scratch.ringfence(["tenants", "--socket", socket]);
    let last = outcome.stdout.lines().last().unwrap().to_owned();
    let words: Vec<&str> = last.split_whitespace().collect();
    assert_eq!((words[0], words[3], words[4]), ("1", "1m", "64m"), "{last}");
    assert_eq!(words.last(), Some(&"raw"));

    let mut stream = UnixStream::connect(&metrics).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    for part in [
        "HTTP/1.1 200 OK",
        "ringfence_modules_compiled_total 1\n",
        "ringfence_tenant_memory_bytes{tenant=\"1\",uid=",
        "program=\"raw\"} 1048576\n",
    ] {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    // Who says nothing keeps nobody waiting for long.
    let _silent = UnixStream::connect(&metrics).unwrap();
    let mut stream = UnixStream::connect(&metrics).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 404"), "{text}");

    drop(raw);
    manager.wait_for("is gone");
    for line in manager.log().lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(line["time"].is_f64() && line["level"].is_string(), "{line}");
    }
    let log = manager.log();
    let refused = log
        .lines()
        .find(|line| line.contains("is refused"))
        .unwrap();
    let refused: Value = serde_json::from_str(refused).unwrap();
    assert_eq!(
        (&refused["tenant"], &refused["program"]),
        (&1.into(), &"raw".into())
    );
}

#[test]
fn no_manager_and_a_strange_one_are_one_error() {
    let scratch = Scratch::new();
    let nobody = scratch.path("nobody.sock");
    let nobody = nobody.to_str().unwrap();
    let outcome = scratch.ringfence(["tenants", "--socket", nobody]);
    outcome.assert_error(&["there is no manager", nobody, "--socket"]);
    // What listens there says something else.
    let strange = scratch.path("strange.sock");
    let admin = protocol::admin_socket(&strange);
    let listener = std::os::unix::net::UnixListener::bind(&admin).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.write_all(&[0xff; 64]);
        }
    });
    let outcome = scratch.ringfence(["tenants", "--socket", strange.to_str().unwrap()]);
    outcome.assert_error(&["gave no answer", "strange.sock.admin"]);
}

#[test]
fn a_file_with_an_error_is_one_error() {
    let scratch = Scratch::new();
    let path = scratch.write(
        "manager.toml",
        "device = \"cpu\"\n[limits]\nmax-stream = 1\n",
    );
    let path = path.to_str().unwrap();
    let outcome = scratch.ringfence(["manager", "--config", path]);
    outcome.assert_error(&[
        path,
        "line 3",
        "`max-stream`",
        "unknown field",
        "max-streams",
    ]);
    let missing = scratch.path("missing.toml");
    let missing = missing.to_str().unwrap();
    let outcome = scratch.ringfence(["manager", "--config", missing]);
    outcome.assert_error(&[missing, "cannot be read"]);
}

/// Messages that are none end their own connection alone.
#[test]
fn garbage_ends_its_own_connection() {
    let scratch = Scratch::new();
    let manager = Manager::start(&scratch, "");
    let neighbour = Neighbour::start(&manager.socket);
    for socket in [
        manager.socket.clone(),
        protocol::admin_socket(&manager.socket),
    ] {
        for bytes in [&[0xff; 64][..], &[9, 0, 0, 0, 1], &[0; 64]] {
            let mut stream = UnixStream::connect(&socket).unwrap();
            stream.write_all(bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut said = Vec::new();
            // It may be reset, because not all was read.
            let _ = stream.read_to_end(&mut said);
        }
    }
    manager.wait_for("was not admitted");
    manager.wait_for("a request of the administrator was not answered");
    neighbour.goes_on(Duration::from_secs(20));
}
