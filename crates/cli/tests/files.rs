//! `ringfence instrument`, `inspect` and `explain`.

mod support;

use support::Scratch;

const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
    .visible .entry _Z5storePi(.param .u64 p)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n\
    st.global.u32 [%rd1], 1;\nret;\n}\n";

#[test]
fn instrumenting_a_file() {
    let scratch = Scratch::new();
    scratch.write("in.ptx", PTX);
    let outcome = scratch.ringfence([
        "instrument",
        "in.ptx",
        "-o",
        "out.ptx",
        "--sites",
        "sites.json",
    ]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let text = std::fs::read_to_string(scratch.path("out.ptx")).unwrap();
    assert!(text.contains(".entry __ringfence_checked__Z5storePi"));
    let sites: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(scratch.path("sites.json")).unwrap())
            .unwrap();
    assert_eq!(sites["version"], 1);
    assert_eq!(sites["kernels"][0]["name"], "_Z5storePi");
    assert_eq!(sites["sites"][0]["kind"], "write");
}

#[test]
fn fencing_a_file() {
    let scratch = Scratch::new();
    scratch.write("in.ptx", PTX);
    let fence = |form: &str| {
        scratch.ringfence([
            "instrument",
            "in.ptx",
            "--protect",
            "fence",
            "--fence-form",
            form,
            "-o",
            "out.ptx",
            "--sites",
            "known.json",
        ])
    };
    for (form, instruction) in [("mask", "lop3.b32"), ("modulo", "mul.hi.u64")] {
        let outcome = fence(form);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        let text = std::fs::read_to_string(scratch.path("out.ptx")).unwrap();
        assert!(text.contains(instruction), "{text}");
        let known = std::fs::read_to_string(scratch.path("known.json")).unwrap();
        let known: serde_json::Value = serde_json::from_str(&known).unwrap();
        assert_eq!(known["accesses"]["global"], 1);
        assert_eq!(known["table"], "__ringfence_fence");
    }
    scratch.write("in.ptx", PTX.replace("st.global.u32 [%rd1], 1;", "brkpt;"));
    fence("mask").assert_error(&["in.ptx cannot be fenced", "line 8", "_Z5storePi", "`brkpt`"]);
}

#[test]
fn files_that_cannot_be_instrumented() {
    let scratch = Scratch::new();
    let output = scratch.path("out.ptx");
    let instrument = |input: &str| scratch.ringfence(["instrument", input, "-o", "out.ptx"]);
    instrument("missing.ptx").assert_error(&["cannot read missing.ptx"]);
    scratch.write("binary.ptx", [0xff, 0xfe]);
    instrument("binary.ptx").assert_error(&["not PTX text", "inspect"]);
    scratch.write(
        "broken.ptx",
        PTX.replace("st.global.u32 [%rd1], 1;", "st.global.u32 [%rd1, 1;"),
    );
    instrument("broken.ptx").assert_error(&["broken.ptx", "8"]);
    assert!(!output.exists());
    scratch.write("in.ptx", PTX);
    scratch
        .ringfence(["instrument", "in.ptx", "-o", "/no/such/folder/out.ptx"])
        .assert_error(&["cannot write"]);
}

#[test]
fn inspecting_ptx_and_fat_binaries() {
    let scratch = Scratch::new();
    scratch.write("in.ptx", PTX);
    let outcome = scratch.ringfence(["inspect", "in.ptx"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("kernel store(int*)"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("1 write"), "{}", outcome.stdout);
    assert!(
        outcome
            .stdout
            .contains("launches that are shown to be in bounds run without checks"),
        "{}",
        outcome.stdout
    );

    let entry = fatbin::NewEntry {
        kind: fatbin::Kind::Ptx,
        arch: 75,
        target: fatbin::Target::Generic,
        version: (7, 0),
        identifier: Some("store.cu".into()),
        compression: fatbin::Compression::Zstd,
        payload: PTX.into(),
    };
    let bytes = fatbin::write(&[entry]);
    scratch.write("in.fatbin", &bytes);
    let outcome = scratch.ringfence(["inspect", "--json", "in.fatbin"]);
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(json["images"][0]["compression"], "zstd");
    assert_eq!(json["kernels"]["_Z5storePi"]["ptx"][0], 75);
    assert_eq!(
        json["kernels"]["_Z5storePi"]["accesses"]["by_bounds"]["kernel-parameter"],
        1
    );
    assert!(json["kernels"]["_Z5storePi"]["accesses"]["proof_obstacle"].is_null());

    scratch.write("cut.fatbin", &bytes[..bytes.len() - 40]);
    let outcome = scratch.ringfence(["inspect", "cut.fatbin"]);
    assert!(outcome.stdout.contains("problem: "), "{}", outcome.stdout);
}

#[test]
fn inspecting_says_what_keeps_launches_from_being_proved() {
    let scratch = Scratch::new();
    let text = PTX.replace("%rd<2>;", "%rd<4>;\n.reg .b32 %r<1>;").replace(
        "st.global.u32 [%rd1], 1;",
        "ld.global.u32 %r0, [%rd1];\nmul.wide.u32 %rd2, %r0, 4;\nadd.s64 %rd3, %rd1, %rd2;\n\
         st.global.u32 [%rd3], 1;",
    );
    scratch.write("in.ptx", &text);
    let outcome = scratch.ringfence(["inspect", "in.ptx"]);
    let line = text
        .lines()
        .position(|line| line.starts_with("st."))
        .unwrap()
        + 1;
    let expected = format!(
        "all launches are checked, because an address depends on data, or on arithmetic that is \
         not followed (PTX line {line})"
    );
    assert!(outcome.stdout.contains(&expected), "{}", outcome.stdout);
}

#[test]
fn files_that_hold_no_device_code() {
    let scratch = Scratch::new();
    scratch
        .ringfence(["inspect", "missing"])
        .assert_error(&["cannot read missing"]);
    scratch.write("text", "hello");
    scratch
        .ringfence(["inspect", "text"])
        .assert_error(&["neither a program", "PTX"]);
    scratch.write("cut", b"\x7fELF");
    scratch
        .ringfence(["inspect", "cut"])
        .assert_error(&["damaged"]);
    scratch
        .ringfence(["inspect", "/bin/true"])
        .assert_error(&["holds no device code"]);
}

#[test]
fn rules_are_explained() {
    let scratch = Scratch::new();
    let list = scratch.ringfence(["explain"]);
    assert_eq!(list.code, Some(0));
    for help in report::rules() {
        assert!(list.stdout.contains(help.rule.id()));
        assert!(
            scratch
                .ringfence(["explain", help.rule.id()])
                .stdout
                .contains(help.title)
        );
    }
    scratch
        .ringfence(["explain", "nonsense"])
        .assert_error(&["nonsense", "invalid-pointer"]);
}
