//! What programs can do as tenants, beside launches and copies: each prints the
//! same as on the CPU device.

use super::{INVALID, NO_HANDLE, Raw, failed, output, tenant};
use crate::support::{build, library};
use protocol::{Place, Reply, Request};
use std::process::Command;

/// Runs a program on the CPU device and as a tenant, and compares; what it
/// prints.
fn same(source: &str) -> String {
    let program = build(&["-arch=sm_75", "-std=c++17"], source);
    let alone = Command::new(&program)
        .env("LD_PRELOAD", library())
        .env("RINGFENCE_OPTIONS", "device=cpu:check=off")
        .env_remove("RINGFENCE_SETTINGS")
        .output()
        .expect("start the program");
    let expected = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert!(alone.status.success(), "{expected}");
    let (stdout, stderr, output) = output(&program, &[]);
    assert_eq!(stdout, expected, "{stderr}");
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stderr, "");
    expected
}

#[test]
fn memory_is_freed_in_the_order_of_streams() {
    let printed = same("tenant_pools.cu");
    assert!(printed.starts_with("sum "), "{printed}");
    assert!(printed.ends_with("gone: 1\n"), "{printed}");
}

#[test]
fn pageable_memory_is_copied_before_anybody_needs_it() {
    let printed = same("tenant_copies.cu");
    assert!(printed.starts_with("waited: cudaSuccess\n"), "{printed}");
    assert_eq!(printed.lines().count(), 7, "{printed}");
}

#[test]
fn pageable_memory_is_copied_before_the_call_returns() {
    let printed = same("tenant_beside.cu");
    let all = "large 20 small 20 rows 20 up 20 of 20\n";
    assert_eq!(printed, format!("blocking: {all}apart: {all}"));
}

#[test]
fn no_call_waits_for_what_other_threads_do_later() {
    let printed = same("tenant_busy.cu");
    assert_eq!(printed.matches(": in time\n").count(), 2, "{printed}");
}

/// Beside the other tests, whose tenants load code all the time.
#[test]
fn threads_that_share_streams_find_what_they_put_there() {
    assert_eq!(same("threads.cu"), "wrong: 0\n");
}

#[test]
fn functions_of_the_host_are_called_in_the_order_of_their_stream() {
    let printed = same("tenant_calls.cu");
    let first = "other 1 held cudaErrorNotReady cudaErrorNotReady calls 0\n";
    assert!(printed.starts_with(first), "{printed}");
    let last = "back 201 263 own 263 order 1 273 3 of 3\nown 201 calls 4\n";
    assert!(printed.ends_with(last), "{printed}");
}

#[test]
fn graphs_do_what_streams_do() {
    let printed = same("tenant_graphs.cu");
    assert!(printed.contains("captured 1, 6 nodes,"), "{printed}");
    assert!(printed.contains("round 2: "), "{printed}");
    assert!(
        printed.contains("waits 900 then 901 ended 901\n"),
        "{printed}"
    );
}

#[test]
fn host_and_device_take_turns_with_managed_memory() {
    let printed = same("tenant_managed.cu");
    assert!(printed.contains("sum 1210 first -20\n"), "{printed}");
    assert!(printed.contains("sum 395 first 20\n"), "{printed}");
    assert!(printed.ends_with("set 15001\n"), "{printed}");
}

/// A process that ends while its functions wait leaves nothing behind that the
/// next one would wait for.
#[test]
fn a_program_may_end_while_its_functions_wait() {
    let program = super::inline(
        "\
#include <cstdio>
#include <unistd.h>
static void stay(void *) { pause(); }
__global__ void nothing() {}
int main() {
    cudaLaunchHostFunc(0, stay, nullptr);
    nothing<<<1, 1>>>();
    printf(\"%d\\n\", cudaStreamQuery(0));
    fflush(stdout);
    _exit(5);
}
",
    );
    let ended = tenant(&program, &[], &super::SOCKET, "").output();
    let ended = ended.expect("started");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "600\n");
    assert_eq!(ended.status.code(), Some(5));
}

/// What a tenant frees behind a stream is no longer its own, and what is another
/// tenant's it cannot free.
#[test]
fn memory_that_was_freed_behind_a_stream_is_nobodys() {
    let mut victim = Raw::connect(0).expect("welcome");
    let mut other = Raw::connect(0).expect("welcome");
    let allocate = |raw: &mut Raw| match raw.ask(&Request::Allocate { size: 4096 }, &[]) {
        Reply::Address(address) => address,
        answer => panic!("{answer:?}"),
    };
    let (theirs, own) = (allocate(&mut victim), allocate(&mut other));
    let free = |address, stream| Request::FreeBehind { address, stream };
    for address in [theirs, own + 512, 0, u64::MAX] {
        let answer = other.ask(&free(address, 0), &[]);
        assert_eq!(failed(&answer), INVALID, "{address:#x}");
    }
    assert_eq!(failed(&other.ask(&free(own, 77), &[])), NO_HANDLE);
    assert_eq!(other.ask(&free(own, 0), &[]), Reply::Done);
    let fill = Request::Fill {
        stream: 0,
        place: Place::linear(own, 4096),
        element: 1,
        value: 1,
    };
    assert_eq!(failed(&other.ask(&fill, &[])), INVALID);
    assert_eq!(failed(&other.ask(&free(own, 0), &[])), INVALID, "twice");
    assert_eq!(other.ask(&Request::Synchronize, &[]), Reply::Done);
    let info = other.ask(&Request::MemoryInfo, &[]);
    let (free, total) = (super::MEMORY, super::MEMORY);
    assert_eq!(info, Reply::Memory { free, total });
}
