//! A tenant that puts very many kernels into many streams, each of which ends in
//! time, beside one that waits for each of its own: it gets on, and nobody is
//! ended.

#[path = "support/driven.rs"]
mod driven;
#[path = "support/managers.rs"]
mod managers;
mod support;

use driven::Tenant;
use manager::{Options, Server, StallTime};
use std::path::PathBuf;
use std::time::Duration;
use support::build;

/// What the work of two tenants may stand still.
const LIMIT: Duration = Duration::from_secs(4);
/// What a round of the neighbour may take, in milliseconds: alone it takes two.
const ROUND: u64 = 3_000;
/// What all of its rounds beside a flood may take on average.
const AVERAGE: u64 = 200;

/// Not a test, but what the manager's workers run.
#[test]
fn compile_worker() {
    managers::work_if_asked();
}

#[test]
fn a_neighbour_gets_on_beside_floods_of_kernels_that_end_in_time() {
    let program: PathBuf = build(&["-arch=sm_75"], "tenant_floods.cu");
    let folder = tempfile::tempdir().expect("temporary folder").keep();
    let options = Options {
        kernel_time: None,
        stall_time: StallTime::Limited(LIMIT),
        ..managers::options(folder.join("manager.sock"), 2)
    };
    let server = Server::start(&options).expect("a manager");
    std::thread::spawn(move || server.run());
    let start = |what: &str| Tenant::start_with(&program, &[what], &options.socket);
    let mut neighbour = start("rounds");
    let mut longest = 0;
    let mut rounds = |count: u64| {
        let mut all = 0;
        for _ in 0..count {
            let took: u64 = neighbour.ask("").parse().expect("milliseconds");
            assert!(took < ROUND, "a round took {took} ms");
            longest = longest.max(took);
            all += took;
        }
        assert!(all < count * AVERAGE, "{count} rounds took {all} ms");
    };
    rounds(20);
    for flood in ["small", "long"] {
        let mut hostile = start(flood);
        rounds(40);
        assert!(hostile.is_there(), "{flood}: {}", hostile.line());
        drop(hostile);
        rounds(5);
    }
    println!("the longest round took {longest} ms");
}
