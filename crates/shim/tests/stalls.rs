//! Tenants whose kernels do not end, beside others whose work stands still. On the
//! CPU device nobody keeps others from running, so the manager is told to judge
//! stalls all the same.

#[path = "support/driven.rs"]
mod driven;
#[path = "support/managers.rs"]
mod managers;
mod support;

use driven::Tenant;
use manager::{Options, Server, StallTime};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use support::build;

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

fn tenant() -> Tenant {
    Tenant::start(&PROGRAM, &SOCKET)
}

/// `cudaErrorLaunchTimeout`
const TIMEOUT: &str = "702";

/// All in one test: tenants of another one would stand still beside these.
#[test]
fn who_keeps_others_from_running_is_ended_and_nobody_else() {
    let (mut hostile, mut good, mut third) = (tenant(), tenant(), tenant());
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
    let mut last = tenant();
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
    for tenant in [&mut good, &mut last] {
        assert_eq!(tenant.ask("short"), "0");
    }
}
