//! A tenant whose kernel runs for longer than the manager's limit. It is ended where
//! another one waits to load code, and only there: one that goes leaves code behind,
//! which is unloaded when there is time.

#[path = "support/driven.rs"]
mod driven;
#[path = "support/managers.rs"]
mod managers;
mod support;

use driven::Tenant;
use manager::{Options, Server};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use support::build;

/// What the kernels of a tenant may take while others wait to load code.
const LIMIT: Duration = Duration::from_secs(2);

/// Not a test, but what the manager's workers run.
#[test]
fn compile_worker() {
    managers::work_if_asked();
}

/// `cudaErrorLaunchTimeout`
const TIMEOUT: &str = "702";

#[test]
fn a_long_kernel_is_ended_for_who_comes_and_not_for_who_goes() {
    let program: PathBuf = build(&["-arch=sm_75"], "tenant_spins.cu");
    let folder = tempfile::tempdir().expect("temporary folder").keep();
    let options = Options {
        kernel_time: Some(LIMIT),
        ..managers::options(folder.join("manager.sock"), 2)
    };
    let server = Server::start(&options).expect("a manager");
    std::thread::spawn(move || server.run());
    let start = || Tenant::start(&program, &options.socket);
    let (mut long, goes) = (start(), start());
    let begun = Instant::now();
    assert_eq!(long.ask("long 8000"), "0");
    drop(goes);
    assert_eq!(long.ask("wait"), "0");
    assert!(begun.elapsed() > 3 * LIMIT, "{:?}", begun.elapsed());
    // Code that was left behind is unloaded now: one more is loaded at once.
    let begun = Instant::now();
    let mut comes = start();
    assert_eq!(comes.ask("short"), "0");
    assert!(begun.elapsed() < Duration::from_secs(30));
    drop(comes);
    // Its twin: nobody could load beside a kernel that does not end.
    assert_eq!(long.ask("endless"), "0");
    let mut comes = start();
    assert_eq!(comes.ask("short"), "0");
    assert_eq!(long.ask("wait"), TIMEOUT);
}
