//! Kernels that wait for what their program puts into a stream later, while other tenants
//! wait to load code.

use super::{GOOD, output};
use crate::support::build;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is put in behind such a kernel must not keep the program from the call that the
/// kernel waits for.
#[test]
fn a_program_gets_to_the_call_that_its_kernel_waits_for() {
    let program = build(&["-arch=sm_75", "-std=c++17"], "tenant_gate.cu");
    let expected: String = (1..=4)
        .map(|round| {
            let (sum, other) = (780 * round, 5 * round);
            format!("held 1 1 no error no error sum {sum} other {other}\n")
        })
        .collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loads = || {
            while !is_over.load(Ordering::Acquire) {
                let (stdout, stderr, _) = output(&GOOD, &[]);
                assert!(stdout.ends_with(" ok\n"), "{stdout} {stderr}");
            }
        };
        let others = [scope.spawn(loads), scope.spawn(loads)];
        let ended = [(); 3].map(|()| output(&program, &[]));
        // (Before anything is judged: the others would go on for ever.)
        is_over.store(true, Ordering::Release);
        for other in others {
            other.join().expect("loads code");
        }
        for (stdout, stderr, _) in ended {
            assert_eq!((&*stdout, &*stderr), (&*expected, ""));
        }
    });
}
