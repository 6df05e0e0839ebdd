//! Tenants whose kernels do not end, beside others whose work stands still. On the
//! CPU device nobody keeps others from running, so the manager is told to judge
//! stalls all the same.

#[path = "support/managers.rs"]
mod managers;
mod support;

use manager::{Options, Server, StallTime};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use support::{build, library};

const LIMIT: Duration = Duration::from_secs(3);

/// One manager: a process has one CPU device.
static SOCKET: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("temporary folder").keep();
    let options = Options {
        kernel_time: None,
        stall_time: StallTime::Limited(LIMIT),
        ..managers::options(folder.join("manager.sock"), 2)
    };
    let server = Server::start(&options).expect("a manager");
    std::thread::spawn(move || server.run());
    options.socket
});

/// Not a test, but what the manager's workers run.
#[test]
fn compile_worker() {
    managers::work_if_asked();
}

static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| build(&["-arch=sm_75"], "tenant_spins.cu"));

/// A tenant, which does what the lines say that it is sent.
struct Tenant {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Tenant {
    /// Its code is loaded when this returns: nobody loads beside endless kernels.
    fn start() -> Tenant {
        let mut child = Command::new(&*PROGRAM)
            .env("LD_PRELOAD", library())
            .env(
                "RINGFENCE_OPTIONS",
                format!("device=tenant:socket={}", SOCKET.display()),
            )
            .env_remove("RINGFENCE_SETTINGS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut tenant = Tenant { child, out };
        assert_eq!(tenant.line(), "ready");
        tenant
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    fn send(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{line}").expect("sent");
    }

    fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.line()
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `cudaErrorLaunchTimeout`
const TIMEOUT: &str = "702";

/// All in one test: tenants of another one would stand still beside these.
#[test]
fn who_keeps_others_from_running_is_ended_and_nobody_else() {
    let (mut hostile, mut good, mut third) = (Tenant::start(), Tenant::start(), Tenant::start());
    // Beside tenants that get on, or wait for their own host, it may run for ever.
    assert_eq!(hostile.ask("endless"), "0");
    let start = Instant::now();
    while start.elapsed() < 3 * LIMIT {
        assert_eq!(good.ask("short"), "0");
        assert_eq!(good.ask("wait"), "0");
    }
    // Also where it shows progress in other streams.
    assert_eq!(hostile.ask("short"), "0");
    assert_eq!(good.ask("long 8000"), "0");
    good.send("wait");
    hostile.send("wait");
    assert_eq!(hostile.line(), TIMEOUT);
    assert_eq!(good.line(), "0");
    // Who was ended has an error until it resets its device. Two tenants together
    // are ended one after the other, in the order in which they began.
    assert_eq!(hostile.ask("short"), TIMEOUT);
    assert_eq!(hostile.ask("reset"), "0");
    assert_eq!(hostile.ask("endless"), "0");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(third.ask("endless"), "0");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(good.ask("long 12000"), "0");
    for tenant in [&mut good, &mut third, &mut hostile] {
        tenant.send("wait");
    }
    let start = Instant::now();
    assert_eq!(hostile.line(), TIMEOUT);
    // Half of the budget, as it was ended before.
    assert!(
        start.elapsed() < LIMIT + Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(third.line(), TIMEOUT);
    assert_eq!(good.line(), "0");
    // Threads that wait for each other for ever end with an error of their tenant.
    assert_eq!(third.ask("reset"), "0");
    assert_eq!(third.ask("deadlock"), "0");
    assert_eq!(third.ask("wait"), TIMEOUT);
    assert_eq!(third.ask("reset"), "0");
    assert_eq!(third.ask("short"), "0");
    // Of a grid that is nowhere near its end, nothing is left when its tenant is
    // gone: code is loaded for one that comes.
    assert_eq!(third.ask("huge"), "0");
    drop(third);
    let start = Instant::now();
    let mut last = Tenant::start();
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
    for tenant in [&mut good, &mut last] {
        assert_eq!(tenant.ask("short"), "0");
    }
}
