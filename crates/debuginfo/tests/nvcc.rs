//! What nvcc 13 writes for a program built with `-G` (`nvcc.ptx`, from the
//! source in its head), and the results for hostile text.

use debuginfo::{DebugInfo, Place, TypeKind};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use std::cell::Cell;

#[path = "support/questions.rs"]
mod questions;

const TEXT: &str = include_str!("nvcc.ptx");

fn info(text: &str) -> DebugInfo {
    let module = ptx::parse(text).expect("it is PTX");
    DebugInfo::of(&module).expect("it is DWARF")
}

#[test]
fn variables_of_frames_have_names_places_and_sizes() {
    let info = info(TEXT);
    let objects = |function: &str| -> Vec<String> {
        info.frame_objects(function)
            .iter()
            .map(|object| {
                format!(
                    "{}+{} {} {}",
                    object.frame, object.offset, object.size, object.name
                )
            })
            .collect()
    };
    assert_eq!(objects("_Z6helperPii"), ["__local_depot0+0 12 acc"]);
    assert_eq!(
        objects("_Z4kernIfEvP1ST_4Pairi"),
        [
            "__local_depot1+0 24 byval",
            "__local_depot1+24 24 local",
            "__local_depot1+48 32 arr",
            "__local_depot1+80 8 scoped",
        ]
    );
    assert!(objects("no_such_function").is_empty());
}

#[test]
fn variables_with_symbols_have_their_own_names_and_types() {
    let info = info(TEXT);
    let mut names: Vec<(&str, &str, u64)> = info
        .variables
        .iter()
        .map(|(symbol, variable)| {
            let size = info.types.size(variable.ty.expect("typed")).expect("sized");
            (symbol.as_str(), variable.name.as_str(), size)
        })
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            ("_ZN2ns7counterE", "_ZN2ns7counterE", 4),
            ("_ZZ4kernIfEvP1ST_4PairiE2sp", "sp", 24),
            ("_ZZ4kernIfEvP1ST_4PairiE4tile", "tile", 128),
            ("globalPairs", "globalPairs", 96),
            ("table", "table", 64),
        ]
    );
}

#[test]
fn parameters_lead_to_the_fields_of_what_they_point_to() {
    let info = info(TEXT);
    let kernel = "_Z4kernIfEvP1ST_4Pairi";
    let p = info
        .parameter(kernel, "_Z4kernIfEvP1ST_4Pairi_param_0")
        .expect("p");
    assert_eq!(p.name, "p");
    let (_, pointer) = info.types.resolve(p.ty.expect("typed")).expect("resolved");
    let TypeKind::Pointer(Some(target)) = pointer.kind else {
        panic!("no pointer: {pointer:?}")
    };
    let array = |offset| {
        let (name, ty) = info.types.array_at(target, offset)?;
        Some((name, info.types.size(ty)?))
    };
    assert_eq!(array(4), Some(("a".into(), 16)));
    assert_eq!(array(20), Some(("b".into(), 16)));
    // A number, the middle of an array, a union, a bit field, an open array.
    for offset in [0, 8, 36, 40, 44, 4000] {
        assert_eq!(array(offset), None, "{offset}");
    }
    // Nested: the second of four pairs.
    let pairs = info.variables["globalPairs"].ty.expect("typed");
    let (name, ty) = info.types.array_at(pairs, 24 + 12).expect("a field");
    assert_eq!((name.as_str(), info.types.size(ty)), ("[1].y", Some(12)));
}

#[test]
fn registers_and_scopes_are_kept() {
    let info = info(TEXT);
    let locals = &info.functions["_Z6helperPii"];
    let q = locals.iter().find(|local| local.name == "q").expect("q");
    assert!(q.is_parameter);
    assert_eq!(q.place, Place::Register("%rd1".into()));
    let scoped = info.functions["_Z4kernIfEvP1ST_4Pairi"]
        .iter()
        .find(|local| local.name == "scoped")
        .expect("scoped");
    let (start, end) = scoped.scope.expect("a scope");
    let text = &TEXT[start as usize..end as usize];
    assert!(text.starts_with("$L__tmp6:"), "{text}");
    assert!(text.contains("add.u64 \t%rd54, %SP, 80;") && !text.contains("bar.sync"));
}

#[test]
fn a_module_without_debug_sections_has_none() {
    let (text, _) = TEXT.split_once("\t.section\t.debug_loc").expect("sections");
    assert!(info(text).is_empty());
}

#[test]
fn what_is_no_data_is_an_error_with_its_line() {
    let text = TEXT.replacen(".b32 .debug_abbrev", ".f32 1.0", 1);
    let module = ptx::parse(&text).unwrap();
    let error = DebugInfo::of(&module).unwrap_err().to_string();
    let line = 1 + TEXT[..TEXT.find(".b32 .debug_abbrev").unwrap()]
        .matches('\n')
        .count();
    assert!(
        error.starts_with(&format!("line {line} of the PTX")),
        "{error}"
    );
}

/// A module whose debug information has abbreviations for an array (2, 3), a
/// name of a type (4), a variable (5), a struct (6, 7) and a number (8).
fn debug(data: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90, debug\n.address_size 64\n.section .debug_abbrev\n{{\n\
         .b8 1,17,1,0,0\n.b8 2,1,1,73,19,0,0\n.b8 3,33,0,47,11,0,0\n.b8 4,22,0,73,19,0,0\n\
         .b8 5,52,0,3,8,73,19,51,11,2,10,0,0\n.b8 6,19,1,11,11,0,0\n\
         .b8 7,13,0,73,19,56,11,0,0\n.b8 8,36,0,11,11,0,0\n.b8 0\n}}\n\
         .section .debug_info\n{{\n{data}\n}}\n"
    )
}

#[test]
fn types_that_hold_themselves_end() {
    // An array of itself, and a name of itself.
    let text = debug(
        ".b32 40\n.b8 2,0\n.b32 .debug_abbrev\n.b8 8\n.b8 1\n.b8 2\n.b32 12\n.b8 3,9\n.b8 0\n.b8 4\n.b32 20\n\
         .b8 5,118,0\n.b32 12\n.b8 5,9,3\n.b64 v\n.b8 0",
    );
    let info = info(&text);
    let ty = info.variables["v"].ty.expect("typed");
    assert_eq!(info.types.size(ty), None);
    assert_eq!(info.types.array_at(ty, 0), None);
}

#[test]
fn what_is_said_to_lie_outside_a_type_is_not_in_it() {
    // A number of 4 bytes at 12; at 14 an array of four; at 22 a struct that
    // holds both, and says that it is so many bytes long; at 37 a variable.
    let found = |size: u8| {
        let text = debug(&format!(
            ".b32 52\n.b8 2,0\n.b32 .debug_abbrev\n.b8 8\n.b8 1\n.b8 8,4\n.b8 2\n.b32 12\n.b8 3,3\n.b8 0\n\
             .b8 6,{size}\n.b8 7\n.b32 12\n.b8 0\n.b8 7\n.b32 14\n.b8 4\n.b8 0\n\
             .b8 5,118,0\n.b32 22\n.b8 5,9,3\n.b64 v\n.b8 0"
        ));
        assert!(questions::ask(&text));
        let info = info(&text);
        let types = &info.types;
        let ty = info.variables["v"].ty.expect("typed");
        assert_eq!(types.size(ty), Some(u64::from(size)));
        let size_of = |(_, inner)| types.size(inner).expect("sized");
        (
            types.scalar_at(ty, 0).map(size_of),
            types.array_at(ty, 4).map(size_of),
        )
    };
    assert_eq!(found(20), (Some(4), Some(16)));
    assert_eq!(found(4), (Some(4), None));
    assert_eq!(found(0), (None, None));
}

/// The module with some bytes of its debug sections changed: which, from how
/// far away the new byte is taken, and what is added to it.
fn changed(changes: &[(Index, usize, u8)]) -> String {
    let mut lines: Vec<String> = TEXT.lines().map(str::to_string).collect();
    // Lines of one byte: names of several stay.
    let data: Vec<(usize, u8)> = TEXT
        .lines()
        .enumerate()
        .filter_map(|(line, text)| Some((line, text.strip_prefix(".b8 ")?.parse().ok()?)))
        .collect();
    for (place, distance, add) in changes {
        let place = place.index(data.len());
        let (_, byte) = data[(place + distance) % data.len()];
        lines[data[place].0] = format!(".b8 {}", byte.wrapping_add(*add));
    }
    lines.join("\n")
}

/// Bytes of the sections changed at random: an answer, and no panic. Few
/// changes, and bytes that stand nearby, leave enough of it readable.
#[test]
fn hostile_bytes_do_not_panic() {
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(1000)
    });
    let add = prop_oneof![Just(0), Just(0), 1u8..4, any::<u8>()];
    let changes = prop::collection::vec((any::<Index>(), 0usize..8, add), 1..6);
    let answered = Cell::new(0);
    runner
        .run(&changes, |changes| {
            let readable = questions::ask(&changed(&changes));
            answered.set(answered.get() + u32::from(readable));
            Ok(())
        })
        .unwrap();
    assert!(answered.get() > 100, "only {} of 1000", answered.get());
}
