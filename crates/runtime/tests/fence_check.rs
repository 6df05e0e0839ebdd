//! The form of fences that checks, on the CPU device: an access that would leave
//! the partition goes to its first byte, and is counted; the first one is recorded
//! with its address. What stays inside leaves no record.

#[path = "../../emulate/tests/common/mod.rs"]
#[allow(unused)]
mod bench;

use bench::{Bench, P};
use instrument::{FenceForm, Fenced, fence, verify_contained};
use model::layout::fence::{FenceTable, HEADROOM, MARGIN, VARIABLE, found};

const BASE: u64 = 0x3000_0000_0000;
/// No power of two.
const SIZE: u64 = 3 << 30;
const VICTIM: u64 = 0x3100_0000_0000;
/// The words that end the tenant's kernels.
const STOP: u64 = 0x3200_0000_0000;
const BUFFER: u64 = BASE + HEADROOM;
const RECORD: u64 = BASE + HEADROOM + 4096;

/// Each thread adds 1 where a pointer and its number lead; threads from `from` on
/// only.
const SOURCE: &str = "\
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 from)
{
.reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p;
.shared .align 4 .b8 tile[256];
ld.param.u64 %rd1, [p]; ld.param.u32 %r3, [from]; mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
setp.ge.u32 %p, %r1, %r3;
@%p ld.global.u32 %r2, [%rd3];
add.s32 %r2, %r2, 1;
@%p st.global.u32 [%rd3], %r2;
cvt.u32.u64 %r2, %rd2; mov.u32 %r3, tile; add.s32 %r3, %r3, %r2; cvt.u64.u32 %rd2, %r3;
cvta.shared.u64 %rd2, %rd2; st.u32 [%rd2], %r1;
ret;
}
";

struct Run {
    count: u64,
    site: u64,
    address: u64,
}

fn word(bench: &Bench, address: u64) -> u64 {
    let mut bytes = [0; 8];
    bench.memory.read(address, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

/// Runs 64 threads.
fn run(bench: &Bench, fenced: &Fenced, pointer: u64, from: u32) -> Run {
    let module = ptx::parse(&fenced.text).unwrap();
    let program = emulate::engine::Program::link(&[module], &bench.memory).unwrap();
    assert_eq!(fenced.variables.len(), 1, "the record alone");
    assert_eq!(fenced.variables[0].name, found::VARIABLE);
    let table = FenceTable::new((BASE, SIZE), STOP, 1024, false).unwrap();
    let bytes = [&table.bytes()[..], &RECORD.to_le_bytes()].concat();
    let own = program.variable(VARIABLE).unwrap();
    assert_eq!(own.size, bytes.len() as u64);
    bench.memory.write(own.address, &bytes).unwrap();
    bench.memory.fill(RECORD, &[0], found::BYTES).unwrap();
    let parameters = [P::U64(pointer), P::U32(from)];
    bench
        .launch(&program, "k", [1, 1, 1], [64, 1, 1], &parameters)
        .unwrap();
    let at = |offset: u32| word(bench, RECORD + u64::from(offset));
    Run {
        count: at(found::COUNT),
        site: at(found::SITE),
        address: at(found::ADDRESS),
    }
}

#[test]
fn what_leaves_the_partition_is_recorded() {
    let fenced = fence(SOURCE, FenceForm::Check).unwrap();
    if let Err(errors) = verify_contained(&fenced.text) {
        panic!("{errors:?}\n{}", fenced.text);
    }
    // Two accesses in global memory, and one that may be.
    let lines: Vec<u32> = fenced.sites.iter().map(|site| site.line).collect();
    assert_eq!(lines, [11, 13, 15]);
    assert!(fenced.sites.iter().all(|site| site.function == "k"));
    let bench = Bench::new();
    let memory = &bench.memory;
    memory.map_fixed(BASE - MARGIN, SIZE + 2 * MARGIN).unwrap();
    memory.map_fixed(VICTIM, 2 << 20).unwrap();
    memory.map_fixed(STOP, 2 << 20).unwrap();

    // Inside: results as ever, and no record, though the last access is one in
    // shared memory.
    memory.fill(BUFFER, &[7, 0, 0, 0], 64).unwrap();
    let done = run(&bench, &fenced, BUFFER, 0);
    assert_eq!((done.count, done.site, done.address), (0, 0, 0));
    assert_eq!(word(&bench, BUFFER), 0x8_0000_0008);

    // The last sixteen threads are outside, by both accesses.
    let end = BASE + SIZE;
    let done = run(&bench, &fenced, end - 48 * 4, 0);
    assert_eq!((done.count, done.site), (32, 1));
    assert!(
        (end..end + 64).contains(&done.address),
        "{:#x}",
        done.address
    );

    // Of those that do not execute nothing is recorded.
    let done = run(&bench, &fenced, VICTIM, 60);
    assert_eq!((done.count, done.site), (8, 1));
    assert!((VICTIM + 240..VICTIM + 256).contains(&done.address));
    let done = run(&bench, &fenced, VICTIM, 64);
    assert_eq!((done.count, done.site), (0, 0));

    // The other tenant has what it had, and the counters of the host's, too.
    assert_eq!(word(&bench, VICTIM + 240), 0);
}

/// What an enemy would leave out of the comparison.
#[test]
fn an_enemys_checks_are_refused() {
    let text = fence(SOURCE, FenceForm::Check).unwrap().text;
    let cases = [
        ("setp.ge.u64 %__rf_outside", "setp.gt.u64 %__rf_outside"),
        ("setp.ge.u64 %__rf_outside", "setp.ge.s64 %__rf_outside"),
        ("setp.ge.u64 %__rf_outside", "@%p setp.ge.u64 %__rf_outside"),
        ("%__rf_u, %__rf_size;", "%__rf_u, %__rf_first;"),
        (
            "selp.b64 %__rf_a0, %__rf_first, %__rf_a0",
            "selp.b64 %__rf_a0, %__rf_a0, %__rf_first",
        ),
        (
            "selp.b64 %__rf_a0, %__rf_first, %__rf_a0",
            "selp.b64 %__rf_a0, %__rf_first, %rd1",
        ),
        (
            "selp.b64 %__rf_a0, %__rf_first",
            "add.s64 %__rf_a0, %__rf_a0, 8; selp.b64 %__rf_a0, %__rf_first",
        ),
        (
            "selp.b64 %__rf_a0, %__rf_first, %__rf_a0, %__rf_outside;",
            "",
        ),
        (
            "sub.s64 %__rf_u, %__rf_a0, %__rf_first;",
            "sub.s64 %__rf_u, %rd1, %__rf_first;",
        ),
        (
            "sub.s64 %__rf_u, %__rf_a0, %__rf_first;",
            "sub.s64 %__rf_u, %__rf_a0, %__rf_size;",
        ),
        (
            "and.b64 %__rf_a0, %__rf_a0, -4;",
            "and.b64 %__rf_a0, %__rf_a0, -2;",
        ),
        ("[%__rf_found+0], 1;", "[%__rf_found+24], 1;"),
        ("__ringfence_found[24]", "__ringfence_found[16]"),
    ];
    assert!(verify_contained(&text).is_ok(), "{text}");
    for (old, new) in cases {
        assert!(text.contains(old), "no `{old}` in\n{text}");
        let changed = text.replacen(old, new, 1);
        assert!(verify_contained(&changed).is_err(), "`{new}` is accepted");
    }
}
