//! The engine on PTX as text: linking of parts, what faults and when, the
//! instructions of the device ABI of instrumented modules, asynchronous
//! copies, matrices.

use crate::common;

use common::{Bench, P};
use emulate::engine::{FaultKind, LoadError, Program};
use emulate::mapping::GRANULE;
use std::sync::Arc;

const HEAD: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";
const ONE: [u32; 3] = [1, 1, 1];

fn with_head(body: &str) -> String {
    format!("{HEAD}{body}")
}

#[test]
fn parts_share_functions_and_variables() {
    let bench = Bench::new();
    let first = with_head(
        ".extern .func (.param .b32 r) twice(.param .b32 x);
         .extern .global .u32 shared_counter;
         .func helper() { ret; }
         .visible .entry start(.param .u64 out) {
           .reg .u64 %p; .reg .u32 %v; .param .b32 a; .param .b32 b;
           ld.param.u64 %p, [out];
           mov.u32 %v, %tid.x;
           st.param.b32 [a], %v;
           call (b), twice, (a);
           ld.param.b32 %v, [b];
           ld.global.u32 %v, [shared_counter];
           st.global.u32 [%p], %v;
           ret; }",
    );
    let second = with_head(
        ".visible .global .u32 shared_counter = 40;
         .func helper() { trap; }
         .visible .func (.param .b32 r) twice(.param .b32 x) {
           .reg .u32 %v;
           ld.param.b32 %v, [x];
           atom.global.add.u32 %v, [shared_counter], 2;
           st.param.b32 [r], %v;
           ret; }",
    );
    let program = bench.link(&[&first, &second]);
    let out = bench.u32s(&[0]);
    bench
        .launch(&program, "start", ONE, ONE, &[P::U64(out)])
        .unwrap();
    assert_eq!(bench.read_u32s(out, 1), [42]);
}

/// Kernels of one program whose file-scope variables would not fit together:
/// each has its own and the one that its function uses.
#[test]
fn kernels_share_the_space_of_shared_variables_that_others_use() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .shared .align 4 .b8 first[40000];
         .visible .shared .align 4 .b8 second[44000];
         .visible .shared .align 4 .b8 common[16];
         .func (.param .b32 r) get() {
           .reg .u32 %v; ld.shared.u32 %v, [common]; st.param.b32 [r], %v; ret; }
         .visible .entry a(.param .u64 out) {
           .reg .u64 %p; .reg .u32 %v; .param .b32 x;
           ld.param.u64 %p, [out];
           st.shared.u32 [first], 5; st.shared.u32 [first+39996], 6; st.shared.u32 [common], 7;
           call (x), get;
           ld.param.b32 %v, [x]; st.global.u32 [%p], %v;
           ld.shared.u32 %v, [first+39996]; st.global.u32 [%p+4], %v;
           ret; }
         .visible .entry b(.param .u64 out) {
           .reg .u64 %p; .reg .u32 %v; .param .b32 x;
           ld.param.u64 %p, [out];
           st.shared.u32 [second], 8; st.shared.u32 [second+43996], 9; st.shared.u32 [common], 10;
           call (x), get;
           ld.param.b32 %v, [x]; st.global.u32 [%p], %v;
           ld.shared.u32 %v, [second]; st.global.u32 [%p+4], %v;
           ret; }
         .visible .entry neither() { ret; }",
    )]);
    let size = |name: &str| program.entry(name).unwrap().static_shared;
    assert_eq!(size("neither"), 0);
    assert!(size("a") <= 44016 && size("b") <= 44016);
    let out = bench.u32s(&[0; 2]);
    bench
        .launch(&program, "a", ONE, ONE, &[P::U64(out)])
        .unwrap();
    assert_eq!(bench.read_u32s(out, 2), [7, 6]);
    bench
        .launch(&program, "b", ONE, ONE, &[P::U64(out)])
        .unwrap();
    assert_eq!(bench.read_u32s(out, 2), [10, 8]);
}

/// C11, 7.21.6.1: a string that is longer than the precision needs no NUL.
#[test]
fn printf_reads_no_more_than_the_precision() {
    let bench = Bench::new();
    let base = bench.memory.map(GRANULE, GRANULE).unwrap();
    let text = base + GRANULE - 3;
    bench.memory.write(text, b"abc").unwrap();
    let program = bench.link(&[&with_head(
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
         .global .align 1 .b8 format[11] = {91, 37, 46, 51, 115, 37, 46, 50, 115, 93, 0};
         .visible .entry k(.param .u64 text) {
           .local .align 8 .b8 depot[24];
           .reg .u64 %t, %f, %d; .param .b64 f; .param .b64 a; .param .b32 r;
           ld.param.u64 %t, [text];
           st.local.u64 [depot], %t; st.local.u64 [depot+8], %t;
           mov.u64 %f, format; cvta.global.u64 %f, %f;
           mov.u64 %d, depot; cvta.local.u64 %d, %d;
           st.param.b64 [f], %f; st.param.b64 [a], %d;
           call (r), vprintf, (f, a);
           ret; }",
    )]);
    bench
        .launch(&program, "k", ONE, ONE, &[P::U64(text)])
        .unwrap();
    assert_eq!(bench.output(), "[abcab]");
}

/// A string without a terminator ends where its memory does, as a fault of the
/// kernel; so do arguments that are nowhere.
#[test]
fn printf_reads_nothing_outside_device_memory() {
    let bench = Bench::new();
    let base = bench.memory.map(GRANULE, GRANULE).unwrap();
    let text = base + GRANULE - 3;
    bench.memory.write(text, b"abc").unwrap();
    let program = bench.link(&[&with_head(
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
         .global .align 1 .b8 format[3] = {37, 115};
         .global .align 1 .b8 numbers[6] = {37, 100, 37, 102};
         .shared .align 8 .b8 word[8];
         .visible .entry string(.param .u64 text, .param .u32 which) {
           .local .align 8 .b8 depot[16];
           .reg .u64 %t, %f, %d, %s; .reg .u32 %w; .reg .pred %p; .param .b64 f; .param .b64 a; .param .b32 r;
           ld.param.u64 %t, [text]; ld.param.u32 %w, [which];
           st.shared.u64 [word], 7016996765293437281; st.local.u64 [depot+8], 7016996765293437281;
           setp.eq.u32 %p, %w, 1; mov.u64 %s, word; cvta.shared.u64 %s, %s; selp.b64 %t, %s, %t, %p;
           setp.eq.u32 %p, %w, 2; mov.u64 %d, depot; cvta.local.u64 %d, %d; add.u64 %s, %d, 8;
           selp.b64 %t, %s, %t, %p;
           st.local.u64 [depot], %t;
           mov.u64 %f, format; cvta.global.u64 %f, %f;
           st.param.b64 [f], %f; st.param.b64 [a], %d;
           call (r), vprintf, (f, a);
           ret; }
         .visible .entry arguments(.param .u64 at) {
           .reg .u64 %f, %d; .param .b64 f; .param .b64 a; .param .b32 r;
           ld.param.u64 %d, [at];
           mov.u64 %f, numbers; cvta.global.u64 %f, %f;
           st.param.b64 [f], %f; st.param.b64 [a], %d;
           call (r), vprintf, (f, a);
           ret; }",
    )]);
    let string = |which| bench.launch(&program, "string", ONE, ONE, &[P::U64(text), P::U32(which)]);
    assert_eq!(string(0).unwrap_err().kind, FaultKind::IllegalAddress);
    assert_eq!(bench.output(), "");
    // A block's and a lane's memory are larger than what the kernel declares.
    for (which, what) in [(1, "shared"), (2, "local")] {
        match string(which) {
            Ok(_) => assert_eq!(bench.output(), "aaaaaaaa", "{what}"),
            Err(fault) => assert_eq!(fault.kind, FaultKind::IllegalAddress, "{what}"),
        }
    }
    for at in [0, 1, 1 << 46, u64::MAX - 7, u64::MAX - 3, u64::MAX] {
        let list = [P::U64(at)];
        assert!(
            bench
                .launch(&program, "arguments", ONE, ONE, &list)
                .is_err()
        );
    }
}

#[test]
fn initializers_hold_addresses() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".global .u32 target[4] = {1, 2, 3, 4};
         .global .u64 pointer = generic(target)+8;
         .global .f64 real = 0d3FF8000000000000;
         .const .u16 table[2][3] = {{1, 2}, {4, 5, 6}};
         .visible .entry k() { ret; }",
    )]);
    let target = program.variable("target").unwrap();
    assert_eq!((target.size, target.is_const), (16, false));
    assert_eq!(bench.read_u32s(target.address, 4), [1, 2, 3, 4]);
    assert_eq!(
        bench.read_u64s(program.variable("pointer").unwrap().address, 1),
        [target.address + 8]
    );
    assert_eq!(
        bench.read_u64s(program.variable("real").unwrap().address, 1),
        [1.5f64.to_bits()]
    );
    let table = program.variable("table").unwrap();
    assert_eq!((table.size, table.is_const), (12, true));
    assert_eq!(
        bench.read_u32s(table.address, 3),
        [2 << 16 | 1, 4 << 16, 6 << 16 | 5]
    );
}

#[test]
fn alloca_gives_memory_of_its_own_until_it_is_given_back() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".func (.param .b32 r) other(.param .b32 x) {
           .local .b32 own[4]; .reg .u32 %v;
           ld.param.b32 %v, [x];
           st.local.u32 [own], %v;
           st.local.u32 [own+12], %v;
           st.param.b32 [r], %v;
           ret; }
         .visible .entry k(.param .u64 out) {
           .local .b32 fixed[2];
           .reg .u64 %p, %a, %b, %c, %s; .reg .u32 %v, %t, %size; .reg .u64 %bytes;
           .reg .pred %odd; .param .b32 x; .param .b32 y;
           ld.param.u64 %p, [out];
           mov.u32 %t, %tid.x;
           st.local.u32 [fixed+4], 7;
           stacksave.u64 %s;
           mad.lo.u32 %size, %t, 4, 8;
           cvt.u64.u32 %bytes, %size;
           alloca.u64 %a, %bytes, 16;
           and.b32 %v, %t, 1;
           setp.eq.u32 %odd, %v, 1;
           @%odd bra taken;
           alloca.u64 %b, 64, 32;
           st.local.u32 [%b], 99;
           st.local.u32 [%b+60], 99;
         taken:
           st.local.u32 [%a], %t;
           st.local.u32 [%a+4], 1000;
           st.param.b32 [x], 5;
           call (y), other, (x);
           ld.local.u32 %v, [%a];
           ld.local.u32 %size, [%a+4];
           add.u32 %v, %v, %size;
           ld.local.u32 %size, [fixed+4];
           add.u32 %v, %v, %size;
           stackrestore.u64 %s;
           alloca.u64 %c, 16;
           sub.u64 %c, %c, %a;
           cvt.u32.u64 %size, %c;
           add.u32 %v, %v, %size;
           mad.wide.u32 %p, %t, 4, %p;
           st.global.u32 [%p], %v;
           ret; }",
    )]);
    let out = bench.u32s(&[0; 32]);
    bench
        .launch(&program, "k", ONE, [32, 1, 1], &[P::U64(out)])
        .unwrap();
    let expected: Vec<u32> = (0..32).map(|lane| 1007 + lane).collect();
    assert_eq!(bench.read_u32s(out, 32), expected);
}

#[test]
fn an_atomic_operation_in_local_memory_is_a_fault() {
    let source = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .visible .entry k() {\n.local .align 8 .b8 depot[8]; .reg .b64 %rd<3>; .reg .b32 %r<2>;\n\
        mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1; st.u32 [%rd2], 1;\n\
        atom.add.u32 %r1, [%rd2], 1;\nret; }\n";
    let bench = Bench::new();
    let program = bench.link(&[source]);
    let fault = bench
        .launch(&program, "k", [1, 1, 1], [1, 1, 1], &[])
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::InvalidAddressSpace, "{fault}");
    assert_eq!(fault.opcode, "atom.add.u32");
}

#[test]
fn a_negative_local_address_is_a_fault() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .entry k(.param .u32 n) {
           .local .b32 own[4]; .reg .u32 %n, %a;
           ld.param.u32 %n, [n];
           mov.u32 %a, own;
           add.u32 %a, %a, %n;
           ld.local.u32 %n, [%a];
           st.local.u32 [own], %n;
           ret; }",
    )]);
    let threads = [32, 1, 1];
    bench
        .launch(&program, "k", ONE, threads, &[P::U32(4)])
        .unwrap();
    let fault = bench
        .launch(&program, "k", ONE, threads, &[P::U32(4u32.wrapping_neg())])
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::IllegalAddress);
}

#[test]
fn what_the_device_lacks_faults_only_when_reached() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .entry k(.param .u32 n) {
           .reg .u32 %n; .reg .pred %p;
           ld.param.u32 %n, [n];
           setp.eq.u32 %p, %n, 0;
           @%p bra done;
           mov.u32 %n, %pm0;
         done:
           ret; }",
    )]);
    assert_eq!(program.unsupported().len(), 1);
    bench.launch(&program, "k", ONE, ONE, &[P::U32(0)]).unwrap();
    let fault = bench
        .launch(&program, "k", ONE, ONE, &[P::U32(1)])
        .unwrap_err();
    assert_eq!(
        (fault.kind, fault.opcode.as_str(), fault.ptx_line),
        (FaultKind::Unsupported, "mov.u32", 9)
    );
}

#[test]
fn malformed_instructions_do_not_load() {
    let bench = Bench::new();
    for (body, word) in [
        ("bra nowhere;", "nowhere"),
        ("add.u32 %v, %w, 1;", "B64"),
        ("add.u32 %v, %v;", "operands"),
        ("@%v mov.u32 %v, 1;", "predicate"),
        ("st.param.u32 [n], %v;", "parameter"),
    ] {
        let text = with_head(&format!(
            ".visible .entry k(.param .u32 n) {{ .reg .u32 %v; .reg .u64 %w;\n{body}\nret; }}"
        ));
        let module = ptx::parse(&text).unwrap();
        match Program::link(&[module], &bench.memory) {
            Err(LoadError::Malformed {
                part: 0,
                line: 5,
                message,
            }) => assert!(message.contains(word), "{message}"),
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn variables_are_unmapped_with_their_program() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(".global .u32 x; .visible .entry k() { ret; }")]);
    let address = program.variable("x").unwrap().address;
    assert!(bench.memory.is_mapped(address, 4));
    drop(program);
    assert!(!bench.memory.is_mapped(address, 4));
}

/// What instrumented code does: 64-bit atomics and release stores at fixed
/// addresses, file-local functions, selections of addresses, space tests.
#[test]
fn instructions_of_the_device_abi() {
    let bench = Bench::new();
    const CONTROL: u64 = 0x2000_0000_0000;
    bench.memory.map_fixed(CONTROL, 2 << 20).unwrap();
    let program = bench.link(&[&with_head(
        ".func (.param .b64 __ringfence_r) __ringfence_record(.param .b32 site, .param .b64 address) {
           .reg .b64 %n, %a, %slot; .reg .b32 %s; .reg .pred %p;
           ld.param.u32 %s, [site];
           ld.param.u64 %a, [address];
           mov.u64 %slot, 35184372088832;
           atom.global.add.u64 %n, [%slot], 1;
           mad.lo.u64 %slot, %n, 64, 35184372154368;
           st.global.u64 [%slot+16], %a;
           st.global.u32 [%slot+48], %s;
           add.u64 %n, %n, 1;
           membar.sys;
           st.release.sys.global.u64 [%slot], %n;
           fence.acq_rel.sys;
           st.param.b64 [__ringfence_r], %n;
           ret; }
         .visible .entry checked(.param .u64 data, .param .u32 n, .param .align 8 .b8 __ringfence_launch[24]) {
           .reg .b64 %d, %o, %base, %size, %a, %sink; .reg .b32 %i, %v, %n, %site; .reg .pred %in, %oob, %shared, %any;
           .param .b32 s; .param .b64 t; .param .b64 r;
           ld.param.u64 %d, [data];
           ld.param.u32 %n, [n];
           ld.param.u64 %base, [__ringfence_launch+8];
           ld.param.u64 %size, [__ringfence_launch+16];
           mov.u32 %i, %tid.x;
           mov.u32 %site, 0;
           setp.lt.u32 %in, %i, %n;
           mad.wide.u32 %a, %i, 4, %d;
           isspacep.shared %shared, %a;
           @%shared trap;
           max.u64 %o, %size, 3;
           sub.u64 %size, %o, 3;
           sub.u64 %o, %a, %base;
           setp.ge.and.u64 %oob, %o, %size, %in;
           selp.b64 %sink, 35184372219904, %a, %oob;
           @%oob mov.u32 %site, 7;
           @%in st.global.u32 [%sink], %i;
           setp.ne.u32 %any, %site, 0;
           @!%any bra done;
           st.param.b32 [s], %site;
           st.param.b64 [t], %a;
           call (r), __ringfence_record, (s, t);
         done:
           ret; }",
    )]);
    let data = bench.u32s(&[9; 64]);
    let mut launch = 1u64.to_le_bytes().to_vec();
    launch.extend(data.to_le_bytes());
    launch.extend((20 * 4u64).to_le_bytes());
    bench
        .launch(
            &program,
            "checked",
            ONE,
            [32, 1, 1],
            &[P::U64(data), P::U32(24), P::Bytes(&launch, 8)],
        )
        .unwrap();
    let expected: Vec<u32> = (0..32).map(|i| if i < 20 { i } else { 9 }).collect();
    assert_eq!(bench.read_u32s(data, 32), expected);
    assert_eq!(bench.read_u64s(CONTROL, 1), [4]);
    for slot in 0..4 {
        let record = bench.read_u64s(CONTROL + 0x1_0000 + 64 * slot, 7);
        assert_eq!(
            (record[0], record[2], record[6]),
            (slot + 1, data + 4 * (20 + slot), 7)
        );
    }
}

#[test]
fn generic_addresses_reach_every_space() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".const .u32 c = 5;
         .func (.param .b32 r) read(.param .b64 p) {
           .reg .u64 %p; .reg .u32 %v;
           ld.param.u64 %p, [p]; ld.u32 %v, [%p]; st.param.b32 [r], %v; ret; }
         .visible .entry k(.param .u64 out, .param .u32 n) {
           .reg .u64 %o, %a; .reg .u32 %v, %s, %t; .reg .pred %p;
           .shared .align 4 .b32 box; .local .align 4 .b32 cell;
           .param .b64 a; .param .b32 r;
           ld.param.u64 %o, [out];
           mov.u32 %t, %tid.x;
           st.local.u32 [cell], %t;
           setp.eq.u32 %p, %t, 0;
           @%p st.shared.u32 [box], 100;
           bar.sync 0;
           mov.u32 %s, 0;
           cvta.shared.u64 %a, box;
           st.param.b64 [a], %a; call (r), read, (a); ld.param.b32 %v, [r]; add.u32 %s, %s, %v;
           cvta.local.u64 %a, cell;
           st.param.b64 [a], %a; call (r), read, (a); ld.param.b32 %v, [r]; add.u32 %s, %s, %v;
           cvta.const.u64 %a, c;
           st.param.b64 [a], %a; call (r), read, (a); ld.param.b32 %v, [r]; add.u32 %s, %s, %v;
           mov.b64 %a, n; cvta.param.u64 %a, %a;
           st.param.b64 [a], %a; call (r), read, (a); ld.param.b32 %v, [r]; add.u32 %s, %s, %v;
           mad.wide.u32 %o, %t, 4, %o;
           st.global.u32 [%o], %s;
           ret; }",
    )]);
    let out = bench.u32s(&[0; 40]);
    bench
        .launch(&program, "k", ONE, [40, 1, 1], &[P::U64(out), P::U32(1000)])
        .unwrap();
    assert_eq!(
        bench.read_u32s(out, 40),
        (0..40).map(|t| 1105 + t).collect::<Vec<u32>>()
    );
}

#[test]
fn divergent_loops_and_guarded_returns() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".func (.reg .u32 %r) collatz(.reg .u32 %n) {
           .reg .u32 %odd; .reg .pred %p, %q;
           mov.u32 %r, 0;
         loop:
           setp.le.u32 %p, %n, 1;
           @%p ret;
           add.u32 %r, %r, 1;
           and.b32 %odd, %n, 1;
           setp.ne.u32 %q, %odd, 0;
           @%q mad.lo.u32 %n, %n, 3, 1;
           @!%q shr.u32 %n, %n, 1;
           bra loop; }
         .visible .entry k(.param .u64 out) {
           .reg .u64 %o; .reg .u32 %t, %r;
           ld.param.u64 %o, [out];
           mov.u32 %t, %tid.x;
           call (%r), collatz, (%t);
           mad.wide.u32 %o, %t, 4, %o;
           st.global.u32 [%o], %r;
           exit; }",
    )]);
    let out = bench.u32s(&[0; 100]);
    bench
        .launch(&program, "k", ONE, [100, 1, 1], &[P::U64(out)])
        .unwrap();
    let collatz = |mut n: u32| {
        let mut r = 0;
        while n > 1 {
            n = if n % 2 == 1 { 3 * n + 1 } else { n / 2 };
            r += 1;
        }
        r
    };
    assert_eq!(
        bench.read_u32s(out, 100),
        (0..100).map(collatz).collect::<Vec<_>>()
    );
}

#[test]
fn copies_that_an_mbarrier_counts() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .entry k(.param .u64 from, .param .u64 to) {
           .reg .u64 %f, %t, %a, %state; .reg .u32 %i, %s, %v, %at; .reg .pred %p, %done;
           .shared .align 16 .b8 tile[1024]; .shared .align 8 .b64 bar;
           ld.param.u64 %f, [from]; ld.param.u64 %t, [to];
           mov.u32 %i, %tid.x;
           mov.u32 %s, bar;
           setp.eq.u32 %p, %i, 0;
           @%p mbarrier.init.shared::cta.b64 [%s], 64;
           bar.sync 0;
           mov.u32 %at, tile;
           @%p mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%s], 512;
           @%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%at], [%f], 512, [%s];
           shl.b32 %v, %i, 3;
           cvt.u64.u32 %a, %v;
           add.u64 %a, %a, %f;
           add.u32 %at, %at, %v;
           cp.async.ca.shared.global [%at+512], [%a+512], 8, 4;
           cp.async.commit_group;
           cp.async.wait_group 0;
           mbarrier.arrive.shared::cta.b64 %state, [%s];
         wait:
           mbarrier.try_wait.parity.shared::cta.b64 %done, [%s], 0;
           @!%done bra wait;
           mov.u32 %at, tile;
           xor.b32 %v, %i, 63; shl.b32 %v, %v, 3; add.u32 %at, %at, %v;
           ld.shared.u64 %a, [%at];
           mad.wide.u32 %t, %i, 16, %t;
           st.global.u64 [%t], %a;
           ld.shared.u64 %a, [%at+512];
           st.global.u64 [%t+8], %a;
           ret; }",
    )]);
    let from: Vec<u64> = (0..128).map(|i| i << 40 | i).collect();
    let (df, dt) = (bench.u64s(&from), bench.u64s(&[0; 128]));
    bench
        .launch(&program, "k", ONE, [64, 1, 1], &[P::U64(df), P::U64(dt)])
        .unwrap();
    let got = bench.read_u64s(dt, 128);
    for i in 0..64u64 {
        // The second copy reads 4 of 8 bytes, the rest is zero.
        assert_eq!(
            got[2 * i as usize..][..2],
            [from[63 - i as usize], 64 + 63 - i],
            "thread {i}"
        );
    }
}

#[test]
fn matrix_product_from_loaded_fragments() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {
           .reg .u64 %a, %b, %c, %x; .reg .u32 %t, %v, %w, %r<8>; .reg .f32 %d<4>;
           .shared .align 16 .b8 sa[512]; .shared .align 16 .b8 sb[256];
           ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c];
           mov.u32 %t, %tid.x;
           mad.wide.u32 %x, %t, 16, %a;
           ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%x];
           mov.u32 %v, sa; mad.lo.u32 %v, %t, 16, %v;
           st.shared.v4.u32 [%v], {%r0, %r1, %r2, %r3};
           mad.wide.u32 %x, %t, 8, %b;
           ld.global.v2.u32 {%r0, %r1}, [%x];
           mov.u32 %v, sb; mad.lo.u32 %v, %t, 8, %v;
           st.shared.v2.u32 [%v], {%r0, %r1};
           bar.sync 0;
           // A is 16 rows of 16 halves: rows of the four quarters.
           and.b32 %v, %t, 15; shl.b32 %v, %v, 5; shr.u32 %w, %t, 4; shl.b32 %w, %w, 4; add.u32 %v, %v, %w;
           mov.u32 %w, sa; add.u32 %v, %v, %w;
           ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%v];
           // B is 16 rows of 8 halves, transposed on the way.
           and.b32 %v, %t, 15; shl.b32 %v, %v, 4; mov.u32 %w, sb; add.u32 %v, %v, %w;
           ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r4, %r5}, [%v];
           mov.f32 %d0, 0f3F800000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, %d0;
           mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%d0, %d1, %d2, %d3};
           shr.u32 %v, %t, 2; shl.b32 %v, %v, 3; and.b32 %w, %t, 3; shl.b32 %w, %w, 1; add.u32 %v, %v, %w;
           mad.wide.u32 %x, %v, 4, %c;
           st.global.v2.f32 [%x], {%d0, %d1};
           st.global.v2.f32 [%x+256], {%d2, %d3};
           ret; }",
    )]);
    // Small integers: exact as halves.
    let half = f16_bits;
    let a: Vec<i32> = (0..256).map(|i| i % 7 - 3).collect();
    let b: Vec<i32> = (0..128).map(|i| i % 5 - 2).collect();
    let upload = |m: &[i32]| bench.upload(m, |x| half(x).to_le_bytes().to_vec());
    let (da, db, dc) = (upload(&a), upload(&b), bench.f32s(&[0.0; 128]));
    bench
        .launch(
            &program,
            "k",
            ONE,
            [32, 1, 1],
            &[P::U64(da), P::U64(db), P::U64(dc)],
        )
        .unwrap();
    let c = bench.read_f32s(dc, 128);
    for i in 0..128 {
        let expected: i32 = (0..16).map(|k| a[i / 8 * 16 + k] * b[k * 8 + i % 8]).sum();
        assert_eq!(c[i], expected as f32 + 1.0, "element {i}");
    }
}

/// f16 bits of a small integer.
fn f16_bits(x: i32) -> u16 {
    if x == 0 {
        return 0;
    }
    let magnitude = x.unsigned_abs();
    let power = 31 - magnitude.leading_zeros();
    let mantissa = (magnitude << (10 - power)) & 0x3ff;
    u16::from(x < 0) << 15 | ((power as u16 + 15) << 10) | mantissa as u16
}

#[test]
fn a_kernel_is_told_whether_it_was_launched_in_clusters() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .entry k(.param .u64 out) {
           .reg .u64 %o; .reg .u32 %v; .reg .pred %p;
           ld.param.u64 %o, [out];
           mov.pred %p, %is_explicit_cluster;
           selp.u32 %v, 1, 2, %p;
           st.global.u32 [%o], %v;
           ret; }",
    )]);
    for (cluster, expected) in [([2, 1, 1], 1), (ONE, 2)] {
        let out = bench.u32s(&[0]);
        bench
            .launch_with(&program, "k", ([2, 1, 1], ONE), &[P::U64(out)], |c| {
                c.cluster = cluster
            })
            .unwrap();
        assert_eq!(bench.read_u32s(out, 1), [expected]);
    }
}

#[test]
fn a_cluster_shares_its_memory() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .entry k(.param .u64 out) {
           .reg .u64 %o, %g; .reg .u32 %r, %n, %next, %a, %v;
           .shared .align 4 .b32 box;
           ld.param.u64 %o, [out];
           mov.u32 %r, %cluster_ctarank;
           mov.u32 %n, %cluster_nctarank;
           mad.lo.u32 %v, %r, 10, %n;
           mov.u32 %a, %ctaid.x;
           mad.lo.u32 %v, %a, 100, %v;
           st.shared.u32 [box], %v;
           barrier.cluster.arrive.release;
           barrier.cluster.wait.acquire;
           add.u32 %next, %r, 1;
           rem.u32 %next, %next, %n;
           mov.u32 %a, box;
           mapa.shared::cluster.u32 %a, %a, %next;
           ld.shared::cluster.u32 %v, [%a];
           mov.u32 %a, %ctaid.x;
           mad.wide.u32 %o, %a, 4, %o;
           st.global.u32 [%o], %v;
           barrier.cluster.arrive;
           barrier.cluster.wait;
           ret; }",
    )]);
    let out = bench.u32s(&[0; 8]);
    bench
        .launch_with(&program, "k", ([8, 1, 1], ONE), &[P::U64(out)], |c| {
            c.cluster = [4, 1, 1]
        })
        .unwrap();
    let expected: Vec<u32> = (0..8)
        .map(|i| {
            let next = i / 4 * 4 + (i + 1) % 4;
            next * 100 + next % 4 * 10 + 4
        })
        .collect();
    assert_eq!(bench.read_u32s(out, 8), expected);
}

#[test]
fn memory_is_shared_by_threads_of_the_host() {
    let bench = Arc::new(Bench::new());
    let program = Arc::new(bench.link(&[&with_head(
        ".visible .entry k(.param .u64 x) { .reg .u64 %x; ld.param.u64 %x, [x]; red.global.add.u64 [%x], 1; red.global.max.u32 [%x+8], 7; ret; }",
    )]));
    let x = bench.u64s(&[0, 0]);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                bench
                    .launch(&program, "k", [64, 1, 1], [128, 1, 1], &[P::U64(x)])
                    .unwrap()
            });
        }
    });
    assert_eq!(bench.read_u64s(x, 2), [3 * 64 * 128, 7]);
}

/// Registers of 8 bits are packed and unpacked (cuda_bf16.hpp does so), and
/// packed halves are clamped at zero (`__vimax_s16x2_relu`). PTX ISA 9.7.9.1 mov,
/// 9.7.1.9 min, 9.7.1.10 max.
#[test]
fn parts_of_eight_bits_and_packed_halves_that_are_clamped() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .entry parts(.param .u64 out) {
           .reg .b64 %o; .reg .b32 %r<8>; .reg .b16 %h<4>; .reg .b8 %b<4>;
           ld.param.u64 %o, [out];
           mov.b32 %r0, 0x80ff7f01;
           mov.b32 {%b0, %b1, %b2, %b3}, %r0;
           mov.b32 %r1, {%b3, %b2, %b1, %b0};
           st.global.u32 [%o], %r1;
           mov.b16 %h0, {%b2, 0};
           mov.b16 {%b0, %b1}, %h0;
           mov.b16 %h1, {%b1, %b0};
           mov.b32 %r2, {%h0, %h1};
           st.global.u32 [%o+4], %r2;
           mov.b32 %r3, 0xfffe0003;
           mov.b32 %r4, 0xffff0002;
           max.s16x2.relu %r5, %r3, %r4;
           st.global.u32 [%o+8], %r5;
           min.s16x2.relu %r5, %r3, %r4;
           st.global.u32 [%o+12], %r5;
           max.s32.relu %r5, -5, -7;
           st.global.u32 [%o+16], %r5;
           min.s32.relu %r5, 5, 7;
           st.global.u32 [%o+20], %r5;
           ret; }",
    )]);
    let out = bench.u32s(&[9; 6]);
    bench
        .launch(&program, "parts", ONE, ONE, &[P::U64(out)])
        .unwrap();
    assert_eq!(
        bench.read_u32s(out, 6),
        [0x017f_ff80, 0xff00_00ff, 0x0000_0003, 0x0000_0002, 0, 5]
    );
}

/// `cvt.pack` of all its types (PTX ISA 9.7.9.22).
#[test]
fn integers_are_packed_with_saturation() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .entry k(.param .u64 out) {
           .reg .b64 %o; .reg .b32 %r<8>;
           ld.param.u64 %o, [out];
           mov.b32 %r0, 70000; mov.b32 %r1, -9; mov.b32 %r2, 0x12345678;
           cvt.pack.sat.u16.s32 %r3, %r0, %r1; st.global.u32 [%o], %r3;
           cvt.pack.sat.s16.s32 %r3, %r0, %r1; st.global.u32 [%o+4], %r3;
           cvt.pack.sat.u8.s32.b32 %r3, %r0, %r1, %r2; st.global.u32 [%o+8], %r3;
           cvt.pack.sat.s8.s32.b32 %r3, %r0, %r1, %r2; st.global.u32 [%o+12], %r3;
           cvt.pack.sat.u4.s32.b32 %r3, %r0, %r1, %r2; st.global.u32 [%o+16], %r3;
           cvt.pack.sat.s4.s32.b32 %r3, %r0, %r1, %r2; st.global.u32 [%o+20], %r3;
           cvt.pack.sat.u2.s32.b32 %r3, %r0, %r1, %r2; st.global.u32 [%o+24], %r3;
           cvt.pack.sat.s2.s32.b32 %r3, %r0, %r1, 0; st.global.u32 [%o+28], %r3;
           ret; }",
    )]);
    let out = bench.u32s(&[9; 8]);
    bench
        .launch(&program, "k", ONE, ONE, &[P::U64(out)])
        .unwrap();
    assert_eq!(
        bench.read_u32s(out, 8),
        [
            0xffff_0000,
            0x7fff_fff7,
            0x5678_ff00,
            0x5678_7ff7,
            0x3456_78f0,
            0x3456_7878,
            0x2345_678c,
            0b0110,
        ]
    );
}

/// Reserved shared memory is none of the program's, and a block has its own
/// (PTX ISA, `%reserved_smem_offset_…`).
#[test]
fn reserved_shared_memory_lies_beside_the_programs() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".extern .shared .align 16 .b8 more[];
         .visible .entry k(.param .u64 out) {
           .reg .b64 %o, %g; .reg .b32 %a, %b, %e, %v, %i; .reg .pred %p;
           .shared .align 4 .b8 own[64];
           ld.param.u64 %o, [out];
           st.shared.u32 [own+60], 1; st.shared.u32 [more+28], 2;
           mov.u32 %b, %reserved_smem_offset_begin;
           mov.u32 %e, %reserved_smem_offset_end;
           mov.u32 %v, %reserved_smem_offset_cap;
           sub.u32 %i, %e, %b; sub.u32 %v, %v, %i; st.global.u32 [%o], %v;
           mov.u32 %a, %b;
           again:
           mov.u32 %v, %ctaid.x; add.u32 %v, %v, 7;
           st.shared.u32 [%a], %v;
           add.u32 %a, %a, 4; setp.lt.u32 %p, %a, %e; @%p bra again;
           mov.u32 %a, %reserved_smem_offset_1; cvt.u64.u32 %g, %a; cvta.shared.u64 %g, %g;
           ld.u32 %v, [%g+284];
           mov.u32 %i, %ctaid.x; mad.wide.u32 %g, %i, 4, %o;
           st.global.u32 [%g+12], %v;
           ld.shared.u32 %v, [own+60]; st.global.u32 [%o+4], %v;
           ld.shared.u32 %v, [more+28]; st.global.u32 [%o+8], %v;
           ret; }",
    )]);
    let out = bench.u32s(&[9; 5]);
    bench
        .launch_with(&program, "k", ([2, 1, 1], ONE), &[P::U64(out)], |c| {
            c.dynamic_shared = 32;
        })
        .unwrap();
    assert_eq!(bench.read_u32s(out, 5), [0, 1, 2, 7, 8]);
}

/// PTX ISA 9.7.9.25.3.1: with `ignore-src` nothing is read, and zeros are
/// written.
#[test]
fn a_copy_that_ignores_its_source_reads_nothing() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .entry k(.param .u64 from, .param .u64 to) {
           .reg .u64 %f, %t, %n, %c; .reg .u32 %i, %s, %v<4>; .reg .pred %p;
           .shared .align 16 .b8 box[1024];
           ld.param.u64 %f, [from]; ld.param.u64 %t, [to];
           mov.u32 %i, %tid.x; setp.gt.u32 %p, %i, 3;
           mad.wide.u32 %n, %i, 16, %f;
           @%p mov.u64 %n, 16;
           mov.u32 %s, box; mad.lo.u32 %s, %i, 32, %s;
           cp.async.cg.shared.global [%s], [%n], 16, %p;
           createpolicy.fractional.L2::evict_first.b64 %c, 1.0;
           cp.async.ca.shared.global.L2::cache_hint [%s+16], [%n], 16, %p, %c;
           cp.async.wait_all;
           mad.wide.u32 %t, %i, 32, %t;
           ld.shared.v4.u32 {%v0, %v1, %v2, %v3}, [%s]; st.global.v4.u32 [%t], {%v0, %v1, %v2, %v3};
           ld.shared.v4.u32 {%v0, %v1, %v2, %v3}, [%s+16]; st.global.v4.u32 [%t+16], {%v0, %v1, %v2, %v3};
           ret; }",
    )]);
    let values: Vec<u32> = (1..=16).collect();
    let (from, to) = (bench.u32s(&values), bench.u32s(&[9; 64]));
    let arguments = [P::U64(from), P::U64(to)];
    bench
        .launch(&program, "k", ONE, [8, 1, 1], &arguments)
        .unwrap();
    let got = bench.read_u32s(to, 64);
    for thread in 0..8 {
        let expected = match thread {
            0..4 => values[thread * 4..][..4].to_vec(),
            _ => vec![0; 4],
        };
        assert_eq!(got[thread * 8..][..4], expected, "thread {thread}");
        assert_eq!(got[thread * 8 + 4..][..4], expected, "thread {thread}");
    }
}

/// Hints read nothing, wherever they point; registers are there for all.
#[test]
fn hints_are_harmless() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .entry k(.param .u64 out) {
           .reg .u64 %n, %o;
           ld.param.u64 %o, [out];
           mov.u64 %n, 4096;
           prefetch.global.L1 [%n]; prefetch.global.L2 [%n]; prefetch.L1 [%n];
           prefetch.global.L2::evict_last [%n]; prefetchu.L1 [%n]; prefetch.tensormap [%n];
           applypriority.global.L2::evict_normal [%n], 128;
           cp.async.bulk.prefetch.L2.global [%n], 1024;
           setmaxnreg.inc.sync.aligned.u32 64;
           setmaxnreg.dec.sync.aligned.u32 32;
           st.global.u32 [%o], 1;
           ret; }",
    )]);
    let out = bench.u32s(&[0]);
    bench
        .launch(&program, "k", ONE, [32, 1, 1], &[P::U64(out)])
        .unwrap();
    assert_eq!(bench.read_u32s(out, 1), [1]);
}

/// `st.async` and `red.async` write to another block's shared memory, and count
/// the bytes at its mbarrier (PTX ISA 9.7.9.12, 9.7.13.8).
#[test]
fn blocks_of_a_cluster_store_to_each_other_and_count_the_bytes() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .entry k(.param .u64 out) {
           .reg .u64 %o; .reg .u32 %r, %next, %i, %a, %m, %v<4>; .reg .pred %p, %first;
           .shared .align 16 .b8 box[1024]; .shared .align 8 .b64 bar; .shared .align 4 .b32 count;
           ld.param.u64 %o, [out];
           mov.u32 %i, %tid.x; mov.u32 %r, %cluster_ctarank;
           setp.eq.u32 %first, %i, 0;
           @%first st.shared.u32 [count], 0;
           @%first mbarrier.init.shared.b64 [bar], 1;
           // 64 threads store 16 bytes and add to 4 each.
           @%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1280;
           barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
           xor.b32 %next, %r, 1;
           mov.u32 %a, bar; mapa.shared::cluster.u32 %m, %a, %next;
           mov.u32 %a, box; mad.lo.u32 %a, %i, 16, %a; mapa.shared::cluster.u32 %a, %a, %next;
           mad.lo.u32 %v0, %r, 1000, %i; add.u32 %v1, %v0, 100; add.u32 %v2, %v0, 200; add.u32 %v3, %v0, 300;
           st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%a], {%v0, %v1, %v2, %v3}, [%m];
           mov.u32 %a, count; mapa.shared::cluster.u32 %a, %a, %next;
           red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%a], %i, [%m];
           again:
           mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
           @!%p bra again;
           mad.lo.u32 %a, %r, 65, %i; mad.wide.u32 %o, %a, 4, %o;
           mov.u32 %a, box; mad.lo.u32 %a, %i, 16, %a;
           ld.shared.v4.u32 {%v0, %v1, %v2, %v3}, [%a];
           add.u32 %v0, %v0, %v3;
           st.global.u32 [%o], %v0;
           ld.shared.u32 %v0, [count];
           @%first st.global.u32 [%o+256], %v0;
           barrier.cluster.arrive; barrier.cluster.wait;
           ret; }",
    )]);
    let out = bench.u32s(&[0; 130]);
    bench
        .launch_with(
            &program,
            "k",
            ([2, 1, 1], [64, 1, 1]),
            &[P::U64(out)],
            |c| c.cluster = [2, 1, 1],
        )
        .unwrap();
    let expected: Vec<u32> = (0..2)
        .flat_map(|rank| {
            let other = 1 - rank;
            (0..64)
                .map(move |i| 2 * (other * 1000 + i) + 300)
                .chain([63 * 32])
        })
        .collect();
    assert_eq!(bench.read_u32s(out, 130), expected);
}

/// LLVM marks code of no line with line 0: it belongs to the line before it.
#[test]
fn a_fault_in_line_zero_is_in_the_line_before_it() {
    let bench = Bench::new();
    let program = bench.link(&[&with_head(
        ".visible .entry k() {
           .reg .u64 %a; .reg .u32 %v;
           .loc 1 12 3
           mov.u64 %a, 4096;
           .loc 1 0 5
           ld.global.u32 %v, [%a];
           .loc 1 14 1
           ret; }
         .file 1 \"/src/app.cu\"",
    )]);
    let fault = bench.launch(&program, "k", ONE, ONE, &[]).unwrap_err();
    let source = fault.source.expect("a place in the source");
    assert_eq!((source.file.as_str(), source.line), ("/src/app.cu", 12));
}
