//! Properties over random modules: the pass never panics, and what it makes
//! of any module that parses passes the verifier.

mod common;

use proptest::prelude::*;

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
        1 => Just("{ .reg .b64 %rd2; mov.u64 %rd2, %rd1; st.u32 [%rd2], 1; }".to_owned()),
        1 => Just(".loc 1 2 3\n".to_owned()),
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
         .func (.param .b64 r) helper(.param .b64 a)\n{{\n{declarations}ld.param.u64 %rd1, [a];\n{function}}}\n\
         .visible .entry kernel(.param .u64 p, .param .u64 q, .param .align 8 .b8 s[24])\n{{\n{declarations}\
         ld.param.u64 %rd0, [p];\nld.param.u64 %rd1, [q];\nld.param.v2.u64 {{%rd2, %rd3}}, [s+8];\n{entry}ret;\n}}\n"
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_module_is_instrumented_as_the_verifier_wants(entry in body(), function in body()) {
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

    #[test]
    fn broken_text_is_an_error_and_not_a_panic(entry in body(), cut in 0..1000usize, byte in any::<u8>()) {
        let source = module(&entry, "ret;\n");
        let at = cut * source.len() / 1000;
        let mut bytes = source.clone().into_bytes();
        bytes[at] = byte & 0x7f;
        if let Ok(text) = String::from_utf8(bytes) {
            let _ = instrument::instrument(&text, &instrument::Options::default());
        }
        let _ = instrument::instrument(&source[..at], &instrument::Options::default());
    }
}

/// A sample of the random modules goes through ptxas, too: all that it takes
/// must still be taken with checks.
#[test]
fn ptxas_takes_random_modules_with_checks() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut taken = 0;
    for _ in 0..24 {
        let entry = body().new_tree(&mut runner).expect("a body").current();
        let entry: String = entry
            .lines()
            .filter(|line| !line.contains("unheard"))
            .flat_map(|l| [l, "\n"])
            .collect();
        let source = module(&entry, "ret;\n");
        if common::assemble(&source).is_err() {
            continue;
        }
        taken += 1;
        let done = common::instrument("a random module", &source);
        if let Err(message) = common::assemble(&done.text) {
            panic!("{message}\n{}", done.text);
        }
    }
    assert!(taken >= 3, "ptxas took only {taken} of the random modules");
}
