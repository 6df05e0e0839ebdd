//! Properties over random modules: the pass never panics, and what it makes
//! of any module that parses passes the verifier.

use crate::common;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use std::cell::Cell;

/// A register of one of the families that `module` declares.
fn wide() -> impl Strategy<Value = String> {
    (0..8u32).prop_map(|n| format!("%rd{n}"))
}

fn narrow() -> impl Strategy<Value = String> {
    (0..4u32).prop_map(|n| format!("%r{n}"))
}

fn guard() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        1 => (0..3u32).prop_map(|n| format!("@%p{n} ")),
        1 => (0..3u32).prop_map(|n| format!("@!%p{n} ")),
    ]
}

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (wide(), -64..64i64).prop_map(|(r, o)| format!("[{r}+{o}]")),
        2 => wide().prop_map(|r| format!("[{r}]")),
        1 => (0..80i64).prop_map(|o| format!("[table+{o}]")),
        1 => Just("[elsewhere]".to_owned()),
        1 => Just("[64]".to_owned()),
    ]
}

fn statement() -> impl Strategy<Value = String> {
    let space = prop_oneof![Just(".global"), Just("")];
    let offset = 0..5u32;
    let arithmetic = prop_oneof![
        Just("add.s64"),
        Just("sub.s64"),
        Just("and.b64"),
        Just("or.b64"),
        Just("xor.b64"),
        Just("min.u64"),
        Just("mul.lo.s64"),
        Just("add.cc.u64"),
        Just("unheard.of.b64"),
    ];
    let operand = prop_oneof![wide(), (-9999..9999i64).prop_map(|n| n.to_string())];
    prop_oneof![
        4 => (guard(), space.clone(), narrow(), address()).prop_map(|(g, s, r, a)| format!("{g}ld{s}.u32 {r}, {a};")),
        2 => (guard(), space.clone(), wide(), address()).prop_map(|(g, s, r, a)| format!("{g}ld{s}.u64 {r}, {a};")),
        1 => (guard(), space.clone(), wide(), wide(), address())
            .prop_map(|(g, s, a, b, at)| format!("{g}ld{s}.v2.u64 {{{a}, {b}}}, {at};")),
        1 => (guard(), space.clone(), narrow(), address())
            .prop_map(|(g, s, a, at)| format!("{g}ld{s}.v4.u32 {{_, {a}, _, %r3}}, {at};")),
        4 => (guard(), space.clone(), narrow(), address()).prop_map(|(g, s, r, a)| format!("{g}st{s}.u32 {a}, {r};")),
        1 => (guard(), space.clone(), wide(), address()).prop_map(|(g, s, r, a)| format!("{g}st{s}.u64 {a}, {r};")),
        1 => (guard(), space, narrow(), address()).prop_map(|(g, s, r, a)| format!("{g}atom{s}.add.u32 {r}, {a}, 1;")),
        1 => (guard(), address(), narrow())
            .prop_map(|(g, a, r)| format!("{g}cp.async.cg.shared.global [%r1], {a}, 16, {r};")),
        4 => (guard(), arithmetic, wide(), wide(), operand).prop_map(|(g, o, d, a, b)| format!("{g}{o} {d}, {a}, {b};")),
        2 => (guard(), wide(), wide()).prop_map(|(g, d, a)| format!("{g}mov.u64 {d}, {a};")),
        1 => (guard(), wide(), wide()).prop_map(|(g, d, a)| format!("{g}cvta.to.global.u64 {d}, {a};")),
        1 => wide().prop_map(|d| format!("mov.u64 {d}, table+4;")),
        1 => wide().prop_map(|d| format!("cvta.shared.u64 {d}, tile;")),
        1 => (wide(), wide(), wide()).prop_map(|(d, a, b)| format!("selp.b64 {d}, {a}, {b}, %p1;")),
        1 => (wide(), narrow()).prop_map(|(d, r)| format!("mul.wide.s32 {d}, {r}, 4;")),
        1 => (narrow(), 0..3u32).prop_map(|(r, p)| format!("setp.lt.u32 %p{p}, {r}, 7;")),
        2 => (guard(), offset.clone()).prop_map(|(g, n)| format!("{g}bra L{n};")),
        1 => guard().prop_map(|g| format!("{g}ret;")),
        1 => guard().prop_map(|g| format!("{g}exit;")),
        1 => wide().prop_map(|r| format!("{{ .param .b64 a; .param .b64 v; st.param.b64 [a], {r}; call (v), find, (a); ld.param.b64 {r}, [v]; }}")),
        2 => call(),
        1 => print(),
        1 => Just("{ .reg .b64 %rd2; mov.u64 %rd2, %rd1; st.u32 [%rd2], 1; }".to_owned()),
        1 => Just(".loc 1 2 3\n".to_owned()),
    ]
}

/// A call of a function of the module itself.
fn call() -> impl Strategy<Value = String> {
    let operand = prop_oneof![4 => wide(), 1 => (-9999..9999i64).prop_map(|n| n.to_string())];
    let other = prop_oneof![Just("mov.u64 %rd7, %rd6;"), Just(""), Just("")];
    prop_oneof![
        (wide(), operand.clone()).prop_map(|(r, a)| format!(
            "{{ .param .b64 a; .param .b64 v; st.param.b64 [a], {a}; call (v), helper, (a); ld.param.b64 {r}, [v]; }}"
        )),
        operand.clone().prop_map(|a| format!("{{ .param .b64 a; st.param.b64 [a], {a}; call leaf, (a); }}")),
        (wide(), wide(), operand, wide(), other).prop_map(|(r, t, a, b, other)| format!(
            "{{ .param .b64 a; .param .align 8 .b8 s[24]; .param .align 8 .b8 v[16]; st.param.b64 [a], {a}; {other} \
             st.param.v2.b64 [s+8], {{{a}, {b}}}; call (v), walk, (a, s); ld.param.b32 %r1, [v]; ld.param.b64 {r}, [v+8]; \
             mov.u64 {t}, {r}; }}"
        )),
    ]
}

/// A call of `printf` with two strings, in a scope that hides a register.
fn print() -> impl Strategy<Value = String> {
    let format = prop_oneof![3 => Just("$str"), 1 => Just("table"), 1 => Just("$str+3")];
    let between = prop_oneof![3 => Just(String::new()), 1 => statement_between()];
    (guard(), wide(), wide(), format, between).prop_map(|(g, a, b, format, between)| format!(
        "{{ .local .align 8 .b8 depot[24]; .reg .b64 %rd3, %f; mov.u64 %rd3, depot; cvta.local.u64 %rd3, %rd3; \
         st.u64 [%rd3], {a}; st.local.u32 [depot+8], %r1; {between} st.local.u64 [depot+16], {b}; \
         mov.u64 %f, {format}; cvta.global.u64 %f, %f; .param .b64 f; .param .b64 a; .param .b32 v; \
         st.param.b64 [f], %f; st.param.b64 [a], %rd3; {g}call (v), vprintf, (f, a); ld.param.b32 %r1, [v]; }}"
    ))
}

/// A statement between the stores of arguments.
fn statement_between() -> impl Strategy<Value = String> {
    prop_oneof![
        (wide(), wide()).prop_map(|(d, a)| format!("add.s64 {d}, {a}, 4;")),
        wide().prop_map(|d| format!("st.u32 [{d}], %r1;")),
        Just("st.local.u16 [depot+4], 7;".to_owned()),
    ]
}

fn body() -> impl Strategy<Value = String> {
    prop::collection::vec(statement(), 0..40).prop_map(|statements| {
        let mut text = String::new();
        let step = statements.len() / 5 + 1;
        for (index, statement) in statements.iter().enumerate() {
            if index % step == 0 {
                text.push_str(&format!("L{}:\n", index / step));
            }
            text.push_str(statement);
            text.push('\n');
        }
        for label in statements.len().div_ceil(step)..5 {
            text.push_str(&format!("L{label}:\n"));
        }
        text
    })
}

fn module(entry: &str, function: &str) -> String {
    let declarations =
        ".reg .pred %p<3>;\n.reg .b32 %r<4>;\n.reg .b64 %rd<8>;\n.shared .align 16 .b8 tile[64];\n";
    format!(
        ".version 7.8\n.target sm_90\n.address_size 64\n.file 1 \"a.cu\"\n.global .align 8 .b8 table[64];\n\
         .extern .global .align 8 .b8 elsewhere[];\n.extern .func (.param .b64 r) find(.param .b64 a);\n\
         .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n\
         .global .align 1 .b8 $str[8] = {{37, 115, 32, 37, 46, 42, 115}};\n\
         .func (.param .align 8 .b8 r[16]) walk(.param .b64 from, .param .align 8 .b8 parts[24]);\n\
         .func leaf(.param .b64 from)\n{{\n{declarations}ld.param.u64 %rd1, [from];\nst.u32 [%rd1+4], 1;\nret;\n}}\n\
         .func (.param .b64 r) helper(.param .b64 from)\n{{\n{declarations}ld.param.u64 %rd1, [from];\n{function}\
         st.param.b64 [r], %rd1;\nret;\n}}\n\
         .func (.param .align 8 .b8 r[16]) walk(.param .b64 from, .param .align 8 .b8 parts[24])\n{{\n{declarations}\
         .local .align 8 .b8 own[16];\nld.param.u64 %rd1, [from];\nld.param.v2.u64 {{%rd2, %rd3}}, [parts+8];\n\
         setp.eq.s64 %p1, %rd3, 0;\nmov.u64 %rd4, own;\ncvta.local.u64 %rd4, %rd4;\n\
         selp.b64 %rd5, %rd2, %rd4, %p1;\nst.param.b32 [r], 1;\nst.param.b64 [r+8], %rd5;\n@%p1 ret;\n\
         {{ .param .b64 a; .param .b64 v; st.param.b64 [a], %rd5; call (v), helper, (a); ld.param.b64 %rd6, [v]; }}\n\
         st.param.b64 [r+8], %rd6;\nret;\n}}\n\
         .visible .entry kernel(.param .u64 p, .param .u64 q, .param .align 8 .b8 s[24])\n{{\n{declarations}\
         ld.param.u64 %rd0, [p];\nld.param.u64 %rd1, [q];\nld.param.v2.u64 {{%rd2, %rd3}}, [s+8];\n{entry}ret;\n}}\n"
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_verifier_accepts_any_instrumented_module(entry in body(), function in body()) {
        let source = module(&entry, &function);
        common::instrument("a random module", &source);
    }

    #[test]
    fn the_pass_is_deterministic(entry in body()) {
        let source = module(&entry, "ret;\n");
        let (first, second) = (common::instrument("once", &source), common::instrument("twice", &source));
        prop_assert_eq!(first.text, second.text);
        prop_assert_eq!(first.tag, second.tag);
        prop_assert_eq!(first.sites, second.sites);
    }
}

/// Modules with a byte changed, and truncated ones: a refusal has a reason, and
/// the verifier accepts the checks of an accepted module. Both happen.
#[test]
fn broken_text_is_refused_or_instrumented_as_any_other() {
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(256)
    });
    let (accepted, refused) = (Cell::new(0), Cell::new(0));
    let strategy = (body(), any::<Index>(), 0u8..0x80);
    runner
        .run(&strategy, |(entry, at, byte)| {
            let source = module(&entry, "ret;\n");
            let at = at.index(source.len());
            let mut bytes = source.clone().into_bytes();
            bytes[at] = byte;
            let changed = String::from_utf8(bytes).expect("all of it is ASCII");
            for text in [&changed, &source[..at]] {
                match instrument::instrument(text, &instrument::Options::default()) {
                    Ok(done) => {
                        common::check("a broken module", text, &done);
                        accepted.set(accepted.get() + 1);
                    }
                    Err(error) => {
                        prop_assert!(!error.to_string().is_empty());
                        refused.set(refused.get() + 1);
                    }
                }
            }
            Ok(())
        })
        .unwrap();
    let counts = (accepted.get(), refused.get());
    assert!(counts.0 >= 20 && counts.1 >= 30, "{counts:?}");
}

/// Without the lines that ptxas would never take.
fn without_unknown(body: &str) -> String {
    let known = body.lines().filter(|line| !line.contains("unheard"));
    known.flat_map(|line| [line, "\n"]).collect()
}

/// ptxas assembles a sample of the random modules, too: it must accept with
/// checks all that it accepts without.
#[test]
fn ptxas_takes_random_modules_with_checks() {
    use proptest::strategy::ValueTree;
    let mut runner = TestRunner::deterministic();
    let mut taken = 0;
    let mut refused = String::new();
    for _ in 0..24 {
        let entry = body().new_tree(&mut runner).expect("a body").current();
        let entry = without_unknown(&entry);
        let function = body().new_tree(&mut runner).expect("a body").current();
        let source = module(&entry, &without_unknown(&function));
        if let Err(message) = common::assemble(&source) {
            refused = message;
            continue;
        }
        taken += 1;
        let done = common::instrument("a random module", &source);
        if let Err(message) = common::assemble(&done.text) {
            panic!("{message}\n{}", done.text);
        }
    }
    assert!(
        taken >= 3,
        "ptxas took only {taken} of the random modules; of the last it says {refused}"
    );
}
