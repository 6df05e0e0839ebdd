//! Programs built by the pinned nvcc as tenants of a manager that owns the CPU
//! device, one of them hostile.

#[path = "tenants/gate.rs"]
mod gate;
#[path = "support/managers.rs"]
mod managers;
#[path = "tenants/printed.rs"]
mod printed;
#[path = "tenants/reach.rs"]
mod reach;
mod support;
#[path = "tenants/together.rs"]
mod together;
#[path = "../../ring/tests/support/mod.rs"]
mod vandal;

use manager::Server;
use managers::{MEMORY, options};
use protocol::{
    COPIED_THROUGH, Channel, Frame, Hello, MAGIC, PINNED_UNIT, Place, Reply, Request, RingChannel,
    SocketChannel, VERSION,
};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use support::{build, library};

/// Not a test, but what the manager's workers run.
#[test]
fn compile_worker() {
    managers::work_if_asked();
}

/// The manager of all tests here: a process has one CPU device.
static SOCKET: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("temporary folder").keep();
    let options = options(folder.join("manager.sock"), 2);
    let server = Server::start(&options).expect("a manager");
    std::thread::spawn(move || server.run());
    options.socket
});

static GOOD: LazyLock<PathBuf> = LazyLock::new(|| build(&["-arch=sm_75"], "tenant_good.cu"));
static HOSTILE: LazyLock<PathBuf> = LazyLock::new(|| build(&["-arch=sm_75"], "tenant_hostile.cu"));

/// A program as a tenant.
fn tenant(program: &Path, arguments: &[&str], socket: &Path, options: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LD_PRELOAD", library())
        .env(
            "RINGFENCE_OPTIONS",
            format!("device=tenant:socket={}:{options}", socket.display()),
        )
        .env_remove("RINGFENCE_SETTINGS")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn output(program: &Path, arguments: &[&str]) -> (String, String, Output) {
    let output = tenant(program, arguments, &SOCKET, "")
        .output()
        .expect("start the program");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output)
}

/// Ends a program when the test ends.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_computes_as_a_tenant_what_it_computes_alone() {
    let alone = Command::new(&*GOOD)
        .env("LD_PRELOAD", library())
        .env("RINGFENCE_OPTIONS", "device=cpu:check=off")
        .env_remove("RINGFENCE_SETTINGS")
        .output()
        .expect("start the program");
    let expected = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert!(expected.ends_with(" ok\n"), "{expected}");
    let (stdout, stderr, output) = output(&GOOD, &[]);
    assert_eq!(stdout, expected, "{stderr}");
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stderr, "");
}

/// While a tenant writes wherever it can, its neighbour's results are what they
/// always are, and neither ends the other.
#[test]
fn a_hostile_tenant_harms_nobody() {
    let (expected, stderr, _) = output(&GOOD, &["20"]);
    assert!(expected.ends_with(" ok\n"), "{expected} {stderr}");
    let hostile = tenant(&HOSTILE, &["hold"], &SOCKET, "").spawn();
    let mut hostile = Ending(hostile.expect("start the program"));
    let mut lines = BufReader::new(hostile.0.stdout.take().expect("a pipe"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    assert_eq!(line, "holding\n");
    for _ in 0..3 {
        let (stdout, stderr, output) = output(&GOOD, &["20"]);
        assert_eq!(stdout, expected, "{stderr}");
        assert!(output.status.success(), "{stderr}");
    }
    let ended = hostile.0.try_wait().expect("a status");
    assert_eq!(ended, None, "it still runs: nothing stopped it, either");
    // Killed while its kernels run: its memory goes, and nobody reads it.
    hostile.0.kill().expect("killed");
    hostile.0.wait().expect("ended");
    for _ in 0..4 {
        let (stdout, stderr, _) = output(&HOSTILE, &["read"]);
        assert_eq!(stdout, "0\n", "{stderr}");
    }
    // The counters of failed threads lie in its partition: what it writes there
    // is its own report.
    let (stdout, stderr, output) = output(&HOSTILE, &["write", "5"]);
    let reports = [
        "no error\n",
        "unspecified launch failure\n",
        "device-side assert triggered\n",
    ];
    assert!(reports.contains(&&*stdout), "{stdout} {stderr}");
    assert!(output.status.success(), "{stderr}");
}

/// Kernels that never end are ended with their tenant, those that are queued, too:
/// the device has no thread left for others until then.
#[test]
fn endless_kernels_end_with_their_tenant() {
    for _ in 0..2 {
        let hostile = tenant(&HOSTILE, &["spin"], &SOCKET, "").spawn();
        let mut hostile = Ending(hostile.expect("start the program"));
        let mut lines = BufReader::new(hostile.0.stdout.take().expect("a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        assert_eq!(line, "spinning\n");
        std::thread::sleep(Duration::from_millis(200));
        let ended = hostile.0.try_wait().expect("a status");
        assert_eq!(ended, None, "its kernels do not end");
        hostile.0.kill().expect("killed");
        hostile.0.wait().expect("ended");
        let (stdout, stderr, _) = output(&GOOD, &[]);
        assert!(stdout.ends_with(" ok\n"), "{stdout} {stderr}");
    }
}

/// Code is loaded in moments without kernels: an endless one must not keep others
/// from that.
#[test]
fn endless_kernels_end_when_another_tenant_waits_to_load_code() {
    let hostile = tenant(&HOSTILE, &["spin"], &SOCKET, "").spawn();
    let mut hostile = Ending(hostile.expect("start the program"));
    let mut lines = BufReader::new(hostile.0.stdout.take().expect("a pipe"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    assert_eq!(line, "spinning\n");
    let (stdout, stderr, _) = output(&GOOD, &[]);
    assert!(stdout.ends_with(" ok\n"), "{stdout} {stderr}");
    line.clear();
    lines.read_line(&mut line).expect("a line");
    assert_eq!(line, "the launch timed out and was terminated\n");
}

#[test]
fn a_trap_ends_the_tenant_that_reaches_it_and_no_other() {
    let mut other = Raw::connect(0).expect("welcome");
    for how in ["trap", "awaited"] {
        let (stdout, stderr, _) = output(&HOSTILE, &[how]);
        assert_eq!(
            stdout, "unspecified launch failure\nunspecified launch failure\n",
            "{how}: the error is sticky: {stderr}"
        );
    }
    assert_eq!(other.ask(&Request::Synchronize, &[]), Reply::Done);
}

#[test]
fn more_memory_than_the_quota_is_an_error_and_no_more() {
    let source = "\
#include <cstdio>
int main() {
    char *all, *more;
    size_t free, total;
    cudaMemGetInfo(&free, &total);
    printf(\"%zu %zu %d\\n\", free, total, cudaMalloc(&all, total));
    printf(\"%d\\n\", cudaMalloc(&more, 1));
    printf(\"%d\\n\", cudaFree(all));
    printf(\"%d\\n\", cudaMalloc(&more, 1));
}
";
    let (stdout, stderr, _) = output(&inline(source), &[]);
    assert_eq!(stdout, "67108864 67108864 0\n2\n0\n0\n", "{stderr}");
    assert!(
        stderr.contains("of the tenant's 67108864 bytes 0 are free"),
        "{stderr}"
    );
}

/// Builds a program that stands here.
fn inline(source: &str) -> PathBuf {
    let mut file = tempfile::Builder::new()
        .suffix(".cu")
        .tempfile()
        .expect("temporary file");
    file.write_all(source.as_bytes()).expect("written");
    build(&["-arch=sm_75"], file.path().to_str().expect("a path"))
}

#[test]
fn a_refused_module_is_named_with_line_and_reason() {
    let source = "\
#include <cstdio>
__global__ void look(cudaTextureObject_t image, float *out) {
    *out = tex2D<float>(image, 0.5f, 0.5f);
}
int main() {
    look<<<1, 1>>>(0, nullptr);
    printf(\"%s\\n\", cudaGetErrorString(cudaGetLastError()));
}
";
    let (stdout, stderr, _) = output(&inline(source), &[]);
    assert_eq!(stdout, "operation not permitted\n", "{stderr}");
    for part in [
        "ringfence: the manager: the module cannot be fenced",
        "look",
        "line ",
    ] {
        assert!(stderr.contains(part), "`{part}` is not in: {stderr}");
    }
}

#[test]
fn no_manager_is_one_clear_error() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let socket = folder.path().join("nobody.sock");
    let output = tenant(&GOOD, &[], &socket, "").output().expect("started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let start = format!(
        "ringfence: error: there is no manager at {}: ",
        socket.display()
    );
    assert!(stderr.starts_with(&start), "{stderr}");
    assert!(!output.status.success());
}

#[test]
fn two_managers_cannot_have_one_socket() {
    let options = options(SOCKET.clone(), 1);
    let error = Server::start(&options).err().expect("refused").to_string();
    assert!(error.contains("another manager has the socket"), "{error}");
    // The first one is as it was.
    Raw::connect(0).expect("welcome");
}

/// A tenant that speaks the protocol itself.
struct Raw {
    channel: RingChannel,
    frame: Frame,
}

/// Connects and sends something; the connection and the answer.
fn greet(first: &Request) -> (SocketChannel, Reply) {
    let socket = UnixStream::connect(&*SOCKET).expect("a manager");
    let mut channel = SocketChannel::new(socket).expect("a channel");
    Frame::send(&mut channel, first, &[]).expect("sent");
    let reply = Frame::default().receive(&mut channel).expect("a reply");
    (channel, reply)
}

impl Raw {
    fn connect(memory: u64) -> Result<Raw, Reply> {
        match greet(&Request::Hello(hello(memory))) {
            (socket, Reply::Welcome(_)) => Ok(Raw {
                channel: RingChannel::connect(socket).expect("rings"),
                frame: Frame::default(),
            }),
            (_, other) => Err(other),
        }
    }

    /// The answer to a request, which is sent again until it can be done.
    fn ask(&mut self, request: &Request, payload: &[u8]) -> Reply {
        let start = Instant::now();
        loop {
            Frame::send(&mut self.channel, request, payload).expect("sent");
            let reply = self.frame.receive(&mut self.channel).expect("a reply");
            // Work must be over first, a module is compiled, or another tenant loads code.
            if reply != Reply::Busy {
                return reply;
            }
            assert!(start.elapsed() < PATIENCE, "it never ends: {request:?}");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// What came with the last reply.
    fn payload(&self) -> &[u8] {
        self.frame.payload()
    }
}

fn hello(memory: u64) -> Hello {
    Hello {
        magic: MAGIC,
        version: VERSION,
        name: "raw".into(),
        memory,
    }
}

fn failed(reply: &Reply) -> Option<u32> {
    match reply {
        Reply::Failed { code, .. } => Some(*code),
        _ => None,
    }
}

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// `CUDA_ERROR_INVALID_VALUE`
const INVALID: Option<u32> = Some(1);
/// `CUDA_ERROR_INVALID_HANDLE`
const NO_HANDLE: Option<u32> = Some(400);

/// Asks for things that this tenant was not given.
fn forged_numbers(other: &mut Raw, mine: Place) {
    for number in [1, 2, 77, u32::MAX] {
        let launch = Request::Launch {
            kernel: number,
            stream: 0,
            grid: [1; 3],
            block: [1; 3],
            shared: 0,
            is_cooperative: false,
            parameters: Vec::new(),
        };
        for request in [
            launch,
            Request::Unload { module: number },
            Request::StreamQuery { stream: number },
            Request::StreamDestroy { stream: number },
            Request::EventQuery { event: number },
            Request::StreamWait {
                stream: 0,
                event: number,
            },
            Request::Fill {
                stream: number,
                place: mine,
                element: 4,
                value: 0,
            },
        ] {
            assert_eq!(failed(&other.ask(&request, &[])), NO_HANDLE, "{request:?}");
        }
    }
}

#[test]
fn forged_numbers_and_addresses_reach_nothing() {
    let mut victim = Raw::connect(0).expect("welcome");
    let mut other = Raw::connect(0).expect("welcome");
    let Reply::Address(secret) = victim.ask(&Request::Allocate { size: 4096 }, &[]) else {
        panic!("no address");
    };
    let place = Place::linear(secret, 4096);
    let bytes = vec![0x5a; 4096];
    let to = Request::Write {
        stream: 0,
        to: place,
    };
    assert_eq!(victim.ask(&to, &bytes), Reply::Done);
    let Reply::Address(own) = other.ask(&Request::Allocate { size: 4096 }, &[]) else {
        panic!("no address");
    };
    let mine = Place::linear(own, 4096);
    assert_eq!(failed(&other.ask(&to, &bytes)), INVALID);
    let overflowing = Place {
        address: own,
        pitch: u64::MAX,
        width: 16,
        height: 3,
    };
    let backwards = Place {
        address: own + 2048,
        pitch: 0,
        width: 16,
        height: u64::MAX,
    };
    for place in [
        place,
        Place::linear(own, 4097),
        Place::linear(own - 1, 2),
        Place::linear(u64::MAX, 4),
        Place::linear(0, 1),
        overflowing,
        backwards,
    ] {
        let requests = [
            Request::Read {
                stream: 0,
                from: place,
            },
            Request::Copy {
                stream: 0,
                to: mine,
                from: place,
            },
            Request::Copy {
                stream: 0,
                to: place,
                from: mine,
            },
            Request::Fill {
                stream: 0,
                place,
                element: 1,
                value: 0,
            },
        ];
        for request in requests {
            assert_eq!(failed(&other.ask(&request, &[])), INVALID, "{request:?}");
        }
    }
    assert_eq!(
        failed(&other.ask(&Request::Free { address: secret }, &[])),
        INVALID
    );
    forged_numbers(&mut other, mine);
    assert_eq!(
        victim.ask(
            &Request::Read {
                stream: 0,
                from: place
            },
            &[]
        ),
        Reply::Bytes
    );
    assert_eq!(victim.frame.payload(), &bytes[..]);
}

#[test]
fn who_is_not_welcome_is_told_why() {
    let too_much = Raw::connect(MEMORY + 1).err();
    let refused = |reply: Option<Reply>, part: &str| match reply {
        Some(Reply::Refused(why)) => assert!(why.contains(part), "{why}"),
        other => panic!("{other:?}"),
    };
    refused(too_much, "a tenant may have 67108864");
    let other_version = Hello {
        version: VERSION + 1,
        ..hello(0)
    };
    refused(
        Some(greet(&Request::Hello(other_version)).1),
        "install the same Ringfence",
    );
    let other_magic = Hello {
        magic: *b"whatever",
        ..hello(0)
    };
    refused(Some(greet(&Request::Hello(other_magic)).1), "no tenant");
    refused(Some(greet(&Request::Synchronize).1), "who it is");
}

/// Bytes that are no messages end their own connection alone, and what its
/// tenant had is free again.
#[test]
fn garbage_ends_its_own_connection_alone() {
    let mut other = Raw::connect(0).expect("welcome");
    let pieces: [&[u8]; 5] = [
        &[0xff; 16],
        &[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        &[5, 0, 0, 0, 1, 0, 0, 0, 250],
        &[8, 0, 0, 0, 1, 0],
        &[],
    ];
    for round in 0..10 {
        let mut raw = Raw::connect(0).expect("welcome");
        assert!(matches!(
            raw.ask(&Request::Allocate { size: MEMORY }, &[]),
            Reply::Address(_)
        ));
        let mut socket = UnixStream::connect(&*SOCKET).expect("a manager");
        socket
            .write_all(pieces[round % pieces.len()])
            .expect("sent");
        raw.channel
            .send(&[pieces[round % pieces.len()]])
            .expect("sent");
    }
    assert_eq!(other.ask(&Request::Synchronize, &[]), Reply::Done);
    let start = Instant::now();
    while Raw::connect(0).is_err() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "partitions stay taken"
        );
    }
}

/// A manager that passes requests on to the true one, and answers so many; with
/// the next one it is gone, as by kill -9: nothing says so but the socket.
fn mortal_manager(answers: usize) -> PathBuf {
    let path = tempfile::tempdir()
        .expect("temporary folder")
        .keep()
        .join("mortal.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    std::thread::spawn(move || {
        let (socket, _) = listener.accept().expect("a tenant");
        let kept = socket.try_clone().expect("a descriptor");
        let mut socket = SocketChannel::new(socket).expect("a channel");
        let mut frame = Frame::default();
        let first: Request = frame.receive(&mut socket).expect("a hello");
        let (behind, welcome) = greet(&first);
        Frame::send(&mut socket, &welcome, &[]).expect("sent");
        let mut behind = RingChannel::connect(behind).expect("rings");
        let mut rings = RingChannel::accept(socket).expect("rings");
        let mut answer = Frame::default();
        for _ in 0..answers {
            let request: Request = frame.receive(&mut rings).expect("a request");
            if frame.is_quiet() {
                Frame::send_quietly(&mut behind, &request, frame.payload()).expect("sent");
                continue;
            }
            Frame::send(&mut behind, &request, frame.payload()).expect("sent");
            let reply: Reply = answer.receive(&mut behind).expect("a reply");
            Frame::send(&mut rings, &reply, answer.payload()).expect("sent");
        }
        let _: Request = frame.receive(&mut rings).expect("a request");
        // The tenant sleeps by now.
        std::thread::sleep(Duration::from_millis(100));
        kept.shutdown(std::net::Shutdown::Both).expect("shut down");
        std::mem::forget(rings);
    });
    path
}

#[test]
fn a_manager_that_dies_is_noticed_by_who_waits_for_it() {
    for answers in [0, 1, 3, 6] {
        let socket = mortal_manager(answers);
        let start = Instant::now();
        let output = tenant(&GOOD, &[], &socket, "").output().expect("started");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{stderr}");
        let said = "error: the connection to the manager has ended: ";
        assert_eq!(stderr.matches(said).count(), 1, "{answers}: {stderr}");
        let taken = start.elapsed();
        assert!(taken < Duration::from_secs(30), "{taken:?}");
    }
}

#[test]
fn a_tenant_that_is_killed_while_it_waits_leaves_nothing() {
    let mut raw = Raw::connect(0).expect("welcome");
    let source = "\
#include <cstdio>
int main() {
    char *all; size_t free, total;
    cudaMemGetInfo(&free, &total);
    cudaMalloc(&all, total);
    printf(\"here\\n\"); fflush(stdout);
    for (;;) cudaDeviceSynchronize();
}
";
    let program = inline(source);
    for _ in 0..3 {
        let child = tenant(&program, &[], &SOCKET, "").spawn().expect("started");
        let mut child = Ending(child);
        let mut line = String::new();
        let mut lines = BufReader::new(child.0.stdout.take().expect("a pipe"));
        lines.read_line(&mut line).expect("a line");
        assert_eq!(line, "here\n");
        child.0.kill().expect("killed");
        child.0.wait().expect("ended");
        assert_eq!(raw.ask(&Request::Synchronize, &[]), Reply::Done);
    }
    let (stdout, stderr, _) = output(&GOOD, &[]);
    assert!(stdout.ends_with(" ok\n"), "{stderr}");
}

/// The child has the same memory and the same socket: its calls fail, and the
/// parent's do not.
#[test]
fn a_fork_leaves_the_parent_its_connection() {
    let source = "\
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>
int main() {
    int *place, value = 7;
    printf(\"%d\\n\", cudaMalloc(&place, 4));
    fflush(stdout);
    for (int i = 0; i < 3; ++i) {
        pid_t child = fork();
        if (child == 0) {
            int *other;
            bool fails = cudaMalloc(&other, 4) != cudaSuccess;
            if (i == 1) _exit(fails);
            exit(fails);
        }
        int status = 0;
        waitpid(child, &status, 0);
        printf(\"%d\\n\", WEXITSTATUS(status));
        fflush(stdout);
    }
    cudaMemcpy(place, &value, 4, cudaMemcpyHostToDevice);
    value = 0;
    printf(\"%d \", cudaMemcpy(&value, place, 4, cudaMemcpyDeviceToHost));
    printf(\"%d\\n\", value);
}
";
    let (stdout, stderr, _) = output(&inline(source), &[]);
    assert_eq!(stdout, "0\n1\n1\n1\n0 7\n", "{stderr}");
}

/// What a tenant writes into the memory that it shares with the manager ends its
/// own connection alone.
#[test]
fn garbage_in_the_rings_ends_its_own_connection_alone() {
    let mut other = Raw::connect(0).expect("welcome");
    for place in [4096_u64, 8192] {
        let (socket, reply) = greet(&Request::Hello(hello(0)));
        assert!(matches!(reply, Reply::Welcome(_)), "{reply:?}");
        let vandal = vandal::Vandal::connect(socket.into_socket(), 1);
        // A length that no frame has, and a position far ahead: each alone is
        // garbage for who looks at it.
        vandal.write(8192, &u64::MAX.to_le_bytes());
        vandal.write(place, &(1_u64 << 40 | 8).to_le_bytes());
        let start = Instant::now();
        let gone = || {
            let mut ends = [rustix::event::PollFd::new(
                &vandal.socket,
                rustix::event::PollFlags::RDHUP,
            )];
            rustix::event::poll(
                &mut ends,
                Some(&rustix::event::Timespec {
                    tv_sec: 0,
                    tv_nsec: 10_000_000,
                }),
            )
            .is_ok_and(|ready| ready > 0)
        };
        if place == 8192 {
            // Nothing was sent yet: the position says that there is a frame.
            vandal.write(4096, &64_u64.to_le_bytes());
        }
        while !gone() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "it is still served"
            );
        }
        assert_eq!(other.ask(&Request::Synchronize, &[]), Reply::Done);
    }
}

/// The same output as a tenant and alone, on the same device.
fn as_alone(source: &str) -> String {
    let program = inline(source);
    let alone = Command::new(&program)
        .env("LD_PRELOAD", library())
        .env("RINGFENCE_OPTIONS", "device=cpu:check=off")
        .env_remove("RINGFENCE_SETTINGS")
        .output()
        .expect("start the program");
    let expected = String::from_utf8_lossy(&alone.stdout).into_owned();
    let (stdout, stderr, _) = output(&program, &[]);
    assert_eq!(stdout, expected, "{stderr}");
    stdout
}

/// Launches do not wait for a reply, and each call still returns its own errors.
#[test]
fn what_a_call_refuses_it_refuses_itself() {
    let source = "\
#include <cstdio>
__global__ void add(int *sum, int n) {
    extern __shared__ int scratch[];
    if (n < 0) scratch[0] = n;
    atomicAdd(sum, n);
}
static void say(const char *what) { printf(\"%s %d\\n\", what, cudaGetLastError()); }
int main() {
    static char bytes[1 << 13];
    int *sum, result = 0;
    cudaEvent_t event;
    cudaStream_t stream;
    cudaMalloc(&sum, 256);
    cudaEventCreate(&event);
    cudaStreamCreate(&stream);
    cudaMemset(sum, 0, 256);
    for (int i = 0; i < 300; ++i) add<<<1, 32>>>(sum, 1);
    say(\"many\");
    add<<<1, 2048>>>(sum, 1000000); say(\"block\");
    add<<<dim3(1, 70000), 32>>>(sum, 1000000); say(\"grid\");
    add<<<0, 32>>>(sum, 1000000); say(\"nothing\");
    add<<<1, 32, 1 << 24>>>(sum, 1000000); say(\"shared\");
    add<<<1, 32>>>(sum, 1); say(\"as before\");
    printf(\"%d\\n\", cudaMemset(sum, 0, 1 << 26)); say(\"memset\");
    printf(\"%d\\n\", cudaMemcpy(sum + 60, bytes, 1 << 13, cudaMemcpyHostToDevice)); say(\"copy\");
    cudaEventRecord(event);
    cudaStreamWaitEvent(stream, event, 0);
    add<<<1, 32, 0, stream>>>(sum, 1); say(\"stream\");
    printf(\"%d\\n\", cudaDeviceSynchronize());
    printf(\"%d \", cudaMemcpy(&result, sum, 4, cudaMemcpyDeviceToHost));
    printf(\"%d\\n\", result);
    for (int i = 0; i < 100; ++i) {
        cudaMemcpy(sum, &i, 4, cudaMemcpyHostToDevice);
        add<<<1, 1>>>(sum, i);
        cudaMemcpy(&result, sum, 4, cudaMemcpyDeviceToHost);
        if (result != 2 * i) printf(\"%d: %d\\n\", i, result);
        cudaDeviceSynchronize();
    }
}
";
    let stdout = as_alone(source);
    for line in ["many 0", "block 1", "grid 1", "as before 0", "0 9664"] {
        assert!(stdout.lines().any(|said| said == line), "{stdout}");
    }
}

/// A trap in a launch that nobody waited for: calls behind it may succeed, until
/// one has said it; all others say it, too.
#[test]
fn a_failure_of_an_asynchronous_launch_is_told_and_stays() {
    let source = "\
#include <cstdio>
__global__ void check(int *place, int n) { if (n == 3) asm volatile(\"trap;\"); *place = n; }
int main() {
    int *place;
    cudaEvent_t event;
    cudaMalloc(&place, 4);
    cudaEventCreate(&event);
    for (int i = 0; i < 3; ++i) check<<<1, 1>>>(place, i);
    printf(\"%d\\n\", cudaDeviceSynchronize());
    check<<<1, 1>>>(place, 3);
    printf(\"%d\\n\", cudaDeviceSynchronize());
    cudaGetLastError();
    check<<<1, 1>>>(place, 0);
    printf(\"%d\\n\", cudaGetLastError());
    printf(\"%d\\n\", cudaMemset(place, 0, 4));
    printf(\"%d\\n\", cudaEventRecord(event));
    printf(\"%d\\n\", cudaMemcpy(place, place, 4, cudaMemcpyDeviceToDevice));
    printf(\"%d\\n\", cudaDeviceSynchronize());
    cudaDeviceReset();
    printf(\"%d\\n\", cudaMalloc(&place, 4));
    printf(\"%d\\n\", cudaMemset(place, 0, 4));
    printf(\"%d\\n\", cudaDeviceSynchronize());
}
";
    let (stdout, stderr, _) = output(&inline(source), &[]);
    assert_eq!(
        stdout, "0\n719\n719\n719\n719\n719\n719\n0\n0\n0\n",
        "{stderr}"
    );
}

fn fill(address: u64) -> Request {
    Request::Fill {
        stream: 0,
        place: Place::linear(address, 512),
        element: 4,
        value: 0,
    }
}

/// The first of the failures without a reply is told, once, by a reply that is
/// about work.
#[test]
fn failures_without_a_reply_are_told_in_order() {
    let mut raw = Raw::connect(0).expect("welcome");
    let quiet = |raw: &mut Raw, request: &Request| {
        Frame::send_quietly(&mut raw.channel, request, &[]).expect("sent");
    };
    quiet(&mut raw, &fill(512));
    let stream_wait = Request::StreamWait {
        stream: 0,
        event: 99,
    };
    quiet(&mut raw, &stream_wait);
    let Reply::Address(own) = raw.ask(&Request::Allocate { size: 512 }, &[]) else {
        panic!("an allocation tells nothing of it, and is done");
    };
    assert_eq!(failed(&raw.ask(&fill(own), &[])), INVALID);
    assert_eq!(raw.ask(&fill(own), &[]), Reply::Done);
    quiet(&mut raw, &stream_wait);
    quiet(&mut raw, &fill(512));
    assert_eq!(failed(&raw.ask(&Request::Synchronize, &[])), NO_HANDLE);
    // More than there is room for: who sends them waits, and nobody else.
    for _ in 0..20_000 {
        quiet(&mut raw, &fill(own));
    }
    let mut other = Raw::connect(0).expect("welcome");
    assert_eq!(other.ask(&Request::Synchronize, &[]), Reply::Done);
    assert_eq!(raw.ask(&Request::Synchronize, &[]), Reply::Done);
    // What needs an answer, and wants none, is no request.
    quiet(&mut raw, &Request::Allocate { size: 512 });
    let last: Reply = raw.frame.receive(&mut raw.channel).expect("a reply");
    assert!(matches!(last, Reply::Refused(_)), "{last:?}");
    assert!(raw.frame.receive::<Reply>(&mut raw.channel).is_err());
}

/// Copies that go through the staging area, in pieces, also where rows are apart.
#[test]
fn large_copies_arrive_as_they_were_made() {
    let source = "\
#include <cstdio>
#include <cstring>
#include <vector>
__global__ void shift(unsigned char *bytes, size_t n) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) bytes[i] += 1;
}
int main() {
    const size_t n = (9 << 20) + 4321, width = 70001, height = 101, host_pitch = 70123;
    std::vector<unsigned char> from(n), to(n);
    for (size_t i = 0; i < n; ++i) from[i] = (unsigned char)(i * 7 + i / 255);
    unsigned char *device, *rows;
    size_t pitch;
    printf(\"%d \", cudaMalloc(&device, n));
    printf(\"%d \", cudaMemcpy(device, from.data(), n, cudaMemcpyHostToDevice));
    shift<<<1, 256>>>(device, n);
    printf(\"%d \", cudaMemcpy(to.data(), device, n, cudaMemcpyDeviceToHost));
    size_t wrong = 0;
    for (size_t i = 0; i < n; ++i) wrong += to[i] != (unsigned char)(from[i] + 1);
    printf(\"%zu\\n\", wrong);
    printf(\"%d \", cudaMallocPitch(&rows, &pitch, width, height));
    printf(\"%d \", cudaMemcpy2D(rows, pitch, from.data(), host_pitch, width, height, cudaMemcpyHostToDevice));
    memset(to.data(), 9, n);
    printf(\"%d \", cudaMemcpy2D(to.data(), host_pitch, rows, pitch, width, height, cudaMemcpyDeviceToHost));
    for (size_t y = 0; y < height; ++y) {
        wrong += memcmp(&from[y * host_pitch], &to[y * host_pitch], width) != 0;
        wrong += to[y * host_pitch + width] != 9;
    }
    printf(\"%zu\\n\", wrong);
    printf(\"%d\\n\", cudaMemcpy(device + 1, from.data(), n, cudaMemcpyHostToDevice));
    printf(\"%d\\n\", cudaMemcpy(to.data(), device + 1, n, cudaMemcpyDeviceToHost));
}
";
    assert_eq!(as_alone(source), "0 0 0 0\n0 0 0 0\n1\n1\n");
}

/// Pinned memory is copied from and to as it is; also from between two cache
/// lines, over the end of a unit, where rows are apart, and where there is more of
/// it than the manager shares.
#[test]
fn pinned_memory_is_copied_as_it_is() {
    let source = "\
#include <cstdio>
#include <cstring>
__global__ void shift(unsigned char *bytes, size_t n) {
    for (size_t i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) bytes[i] += 1;
}
int main() {
    const size_t n = (33 << 20) + 4321, width = 70001, height = 11, host_pitch = 70123;
    unsigned char *from, *to, *device, *rows, *more;
    size_t pitch, wrong = 0;
    printf(\"%d \", cudaMallocHost(&from, n));
    printf(\"%d \", cudaMallocHost(&to, n));
    printf(\"%d \", cudaMalloc(&device, n));
    for (size_t i = 0; i < n; ++i) from[i] = (unsigned char)(i * 7 + i / 255);
    for (size_t skip : {0, 64, 5}) {
        memset(to, 9, n);
        printf(\"%d \", cudaMemcpy(device, from + skip, n - skip, cudaMemcpyHostToDevice));
        shift<<<2, 64>>>(device, 100000);
        printf(\"%d \", cudaMemcpyAsync(to + skip, device, n - skip, cudaMemcpyDeviceToHost));
        printf(\"%d \", cudaDeviceSynchronize());
        for (size_t i = skip; i < n; i += 97)
            wrong += to[i] != (unsigned char)(from[i] + (i - skip < 100000));
        for (size_t i = 0; i < skip; ++i) wrong += to[i] != 9;
    }
    printf(\"%zu\\n\", wrong);
    printf(\"%d \", cudaMallocPitch(&rows, &pitch, width, height));
    printf(\"%d \", cudaMemcpy2D(rows, pitch, from, host_pitch, width, height, cudaMemcpyHostToDevice));
    memset(to, 9, n);
    printf(\"%d \", cudaMemcpy2D(to, host_pitch, rows, pitch, width, height, cudaMemcpyDeviceToHost));
    for (size_t y = 0; y < height; ++y) {
        wrong += memcmp(&from[y * host_pitch], &to[y * host_pitch], width) != 0;
        wrong += to[y * host_pitch + width] != 9;
    }
    printf(\"%d \", cudaMallocHost(&more, size_t(2) << 30));
    memset(more + (1 << 30), 7, 1 << 20);
    printf(\"%d \", cudaMemcpy(device, more + (1 << 30), 1 << 20, cudaMemcpyHostToDevice));
    printf(\"%d \", cudaMemcpy(to, device, 1 << 20, cudaMemcpyDeviceToHost));
    wrong += memcmp(to, more + (1 << 30), 1 << 20) != 0;
    printf(\"%d %d %d \", cudaFreeHost(more), cudaFreeHost(from), cudaFreeHost(to));
    unsigned char *again;
    printf(\"%d %d \", cudaMallocHost(&again, n), cudaFreeHost(again + 1));
    printf(\"%zu\\n\", wrong);
}
";
    assert_eq!(
        as_alone(source),
        "0 0 0 0 0 0 0 0 0 0 0 0 0\n0 0 0 0 0 0 0 0 0 0 1 0\n"
    );
}

/// Killed between any two bytes of a large copy: nothing is left of it, and
/// nobody else sees anything.
#[test]
fn a_tenant_that_is_killed_in_a_large_copy_leaves_nothing() {
    let source = "\
#include <cstdio>
#include <vector>
int main() {
    size_t n = 48 << 20;
    std::vector<char> host(n, 0x5a);
    char *device;
    cudaMalloc(&device, n);
    for (int i = 0;; ++i) {
        if (cudaMemcpy(device, host.data(), n, cudaMemcpyHostToDevice)) return 1;
        if (cudaMemcpy(host.data(), device, n, cudaMemcpyDeviceToHost)) return 1;
        if (i == 0) { printf(\"here\\n\"); fflush(stdout); }
    }
}
";
    let program = inline(source);
    let mut other = Raw::connect(0).expect("welcome");
    for round in 0..6 {
        let child = tenant(&program, &[], &SOCKET, "").spawn().expect("started");
        let mut child = Ending(child);
        let mut line = String::new();
        let mut lines = BufReader::new(child.0.stdout.take().expect("a pipe"));
        lines.read_line(&mut line).expect("a line");
        assert_eq!(line, "here\n");
        std::thread::sleep(Duration::from_millis(7 * round));
        child.0.kill().expect("killed");
        child.0.wait().expect("ended");
        assert_eq!(other.ask(&Request::Synchronize, &[]), Reply::Done);
        let (stdout, stderr, _) = output(&HOSTILE, &["read"]);
        assert_eq!(stdout, "0\n", "{stderr}");
    }
}

#[test]
fn only_the_staging_area_is_copied_through() {
    let mut raw = Raw::connect(0).expect("welcome");
    let Reply::Address(own) = raw.ask(&Request::Allocate { size: 16 << 20 }, &[]) else {
        panic!("no address");
    };
    let size = raw.channel.staging().size();
    let both = |place: Place, offset: u64| {
        let (stream, to, from) = (0, place, place);
        [
            Request::WriteStaged { stream, to, offset },
            Request::ReadStaged {
                stream,
                from,
                offset,
            },
        ]
    };
    let behind = |place: Place, offset: u64| {
        let (stream, to, from) = (0, place, place);
        [
            Request::WriteBehind { stream, to, offset },
            Request::ReadBehind {
                stream,
                from,
                offset,
            },
        ]
    };
    for (place, offset) in [
        (Place::linear(own, 4096), size),
        (Place::linear(own, 4096), size - 64),
        (Place::linear(own, size + 1), 0),
        // From what is copied through to what is pinned; from one unit to the next.
        (Place::linear(own, 8192), COPIED_THROUGH - 4096),
        (
            Place::linear(own, 8192),
            COPIED_THROUGH + PINNED_UNIT - 4096,
        ),
        (Place::linear(own, 64), u64::MAX - 63),
        (Place::linear(own - 64, 64), 0),
        (Place::linear(own, u64::MAX), 0),
    ] {
        for request in both(place, offset).into_iter().chain(behind(place, offset)) {
            assert_eq!(failed(&raw.ask(&request, &[])), INVALID, "{request:?}");
        }
    }
    // Chunks begin at whole units; pinned memory is copied from any byte on.
    for request in both(Place::linear(own, 64), 1) {
        assert_eq!(failed(&raw.ask(&request, &[])), INVALID, "{request:?}");
    }
    let bytes: Vec<u8> = (0..4096).map(|at| (at % 251) as u8).collect();
    let chunk = |raw: &Raw, offset| -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let staging = raw.channel.staging();
        let chunk = staging.chunk(offset, 4096).expect("in the area");
        chunk.read(&mut bytes).expect("read");
        bytes
    };
    let last = size - 4096;
    let staging = raw.channel.staging().clone();
    let at_last = staging.chunk(last, 4096).expect("in the area");
    at_last.write(&bytes).expect("written");
    let [write, _] = both(Place::linear(own + 64, 4096), last);
    assert_eq!(raw.ask(&write, &[]), Reply::Done);
    let [_, read] = both(Place::linear(own + 64, 4096), 64);
    assert_eq!(raw.ask(&read, &[]), Reply::Done);
    assert_eq!(chunk(&raw, 64), bytes);
    let [write, _] = behind(Place::linear(own + 8192, 4096), last);
    let [_, read] = behind(Place::linear(own + 8192, 4096), COPIED_THROUGH + 4096);
    for request in [write, read, Request::Synchronize] {
        assert_eq!(raw.ask(&request, &[]), Reply::Done);
    }
    assert_eq!(chunk(&raw, COPIED_THROUGH + 4096), bytes);
}
