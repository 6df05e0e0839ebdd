//! One test for each rule of provenance: a few lines of PTX, and the origin of
//! the address of a marked access.

use analysis::{Analysis, ModuleSymbols, Origin, Referent, Root};
use ptx::table::Space;

/// The origin of the address of the last global or generic access, in words.
fn last_access(body: &str) -> String {
    let text = format!(
        ".version 7.8\n.target sm_90\n.address_size 64\n\
         .global .align 4 .b8 table[64];\n.extern .global .align 4 .b8 elsewhere[];\n.const .align 4 .b8 fixed[16];\n\
         .func (.param .b64 r) get(.param .b64 a);\n\
         .visible .entry k(.param .u64 p, .param .u64 .ptr .align 1 q, .param .u32 n, .param .align 8 .b8 s[24])\n\
         {{\n.reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<30>;\n.reg .f64 %fd<3>;\n\
         .shared .align 4 .b8 tile[64];\n.local .align 8 .b8 depot[64];\n{body}\nret;\n}}\n"
    );
    let module = ptx::parse(&text).unwrap_or_else(|errors| panic!("{}\n{text}", errors[0]));
    let symbols = ModuleSymbols::of(&module);
    let function = module
        .items
        .iter()
        .find_map(|item| match item {
            ptx::Item::Function(f) if f.is_entry => Some(f),
            _ => None,
        })
        .expect("the kernel");
    let analysis = Analysis::of(&symbols, function).expect("a body");
    let reference = (0..analysis.code.instructions.len())
        .rev()
        .find_map(|index| {
            let info = analysis.code.info(index)?;
            let access = info
                .accesses
                .iter()
                .find(|a| matches!(a.space, Space::Global | Space::Generic | Space::Shared))?;
            analysis.code.address_of(index, access.operand).copied()
        })
        .expect("an access");
    if let Referent::Symbol(id, offset) = reference.referent {
        return format!(
            "symbol {}+{offset}",
            analysis.code.symbols[id.0 as usize].name
        );
    }
    let origin = analysis.provenance.origin(reference.value);
    let said = match origin {
        Origin::Pointer { root, .. } => match analysis.provenance.root(root).expect("a root") {
            Root::KernelParameter { offset } => format!("parameter {offset}"),
            Root::Variable { symbol } => {
                format!("variable {}", analysis.code.symbols[symbol.0 as usize].name)
            }
            Root::Lookup { .. } => "lookup".to_owned(),
            Root::Whole { symbol } => {
                format!("whole {}", analysis.code.symbols[symbol.0 as usize].name)
            }
            Root::Part { start, .. } => format!("part at {start}"),
            Root::Declared { .. } => "declared".to_owned(),
            Root::Mapped { .. } => "mapped".to_owned(),
            other => format!("{other:?}").to_lowercase(),
        },
        other => {
            let text = format!("{other:?}").to_lowercase();
            text.split(' ').next().unwrap_or_default().to_owned()
        }
    };
    match origin.is_in_doubt() {
        true => format!("{said} in doubt"),
        false => said,
    }
}

/// `last_access` of a body that loads parameters first: %rd1 is `p`, %rd2 is
/// `q` (known to be a pointer), %rd3 and %rd4 are eight bytes each of `s`,
/// %r1 is `n`.
fn with_parameters(body: &str) -> String {
    last_access(&format!(
        "ld.param.u64 %rd1, [p];\nld.param.u64 %rd2, [q];\nld.param.u64 %rd3, [s];\nld.param.u64 %rd4, [s+16];\n\
         ld.param.u32 %r1, [n];\nmov.u32 %r2, %tid.x;\nsetp.ne.s32 %p1, %r2, 0;\n{body}"
    ))
}

#[test]
fn parameters_keep_their_offset_in_the_block() {
    assert_eq!(with_parameters("ld.global.u32 %r3, [%rd1];"), "parameter 0");
    assert_eq!(with_parameters("ld.global.u32 %r3, [%rd2];"), "parameter 8");
    // n takes four bytes and four of padding.
    assert_eq!(with_parameters("ld.u32 %r3, [%rd3];"), "parameter 24");
    assert_eq!(with_parameters("ld.u32 %r3, [%rd4];"), "parameter 40");
}

#[test]
fn vector_loads_of_parameters_give_each_element_its_offset() {
    assert_eq!(
        last_access("ld.param.v2.u64 {%rd1, %rd2}, [s];\nld.u32 %r3, [%rd2];"),
        "parameter 32"
    );
}

#[test]
fn pointer_arithmetic_keeps_the_root() {
    for step in [
        "mov.u64 %rd5, %rd2;",
        "cvta.to.global.u64 %rd5, %rd2;",
        "cvt.u64.u64 %rd5, %rd2;",
        "add.s64 %rd5, %rd2, 4096;",
        "add.s64 %rd5, 4096, %rd2;",
        "sub.s64 %rd5, %rd2, 16;",
        "mul.wide.s32 %rd6, %r2, 4; add.s64 %rd5, %rd2, %rd6;",
        "mul.wide.s32 %rd6, %r2, 4; sub.s64 %rd5, %rd2, %rd6;",
        "cvt.s64.s32 %rd6, %r2; add.s64 %rd5, %rd6, %rd2;",
        "mad.wide.s32 %rd5, %r2, 4, %rd2;",
        "cvt.s64.s32 %rd6, %r2; mad.lo.s64 %rd5, %rd6, 4, %rd2;",
        "and.b64 %rd5, %rd2, -16;",
        "or.b64 %rd5, %rd2, 8;",
        "cvt.u64.u32 %rd6, %r2; or.b64 %rd5, %rd2, %rd6;",
        "add.s64 %rd6, %rd2, 64; max.u64 %rd5, %rd2, %rd6;",
    ] {
        assert_eq!(
            with_parameters(&format!("{step}\nld.global.u32 %r3, [%rd5];")),
            "parameter 8",
            "{step}"
        );
    }
}

#[test]
fn numbers_are_not_pointers() {
    for step in [
        "mul.wide.s32 %rd5, %r2, 4;",
        "cvt.u64.u32 %rd6, %r2; shl.b64 %rd5, %rd6, 3;",
        "cvt.u64.u32 %rd6, %r2; shr.u64 %rd5, %rd6, 3;",
        "shr.u64 %rd5, %rd1, 32;",
        "mov.b64 %rd5, {%r1, 0};",
        "mov.u64 %rd5, %clock64;",
        "cvt.u64.u32 %rd6, %r2; cvt.u64.u32 %rd7, %r1; xor.b64 %rd5, %rd6, %rd7;",
        "and.b64 %rd5, %rd2, 15;",
        "cvt.u64.u32 %rd5, %r2;",
        "mul.lo.s64 %rd5, %rd2, %rd4;",
        "ld.global.u32 %rd5, [%rd2];",
    ] {
        assert_eq!(
            with_parameters(&format!("{step}\nld.global.u32 %r3, [%rd5];")),
            "integer",
            "{step}"
        );
    }
    assert_eq!(
        with_parameters("mov.u64 %rd5, 0;\nld.global.u32 %r3, [%rd5];"),
        "null"
    );
}

#[test]
fn what_cannot_be_followed_is_not_guessed() {
    for (step, origin) in [
        ("addc.u64 %rd5, %rd2, %rd4;", "opaque"),
        // A half that was moved to its place, without the other.
        ("cvt.u64.u32 %rd6, %r2; shl.b64 %rd5, %rd6, 32;", "opaque"),
        ("mul.wide.u32 %rd5, %r2, 65536;", "opaque"),
        ("shl.b64 %rd5, %rd1, 4;", "opaque"),
        // Absolute: the object is unknown.
        ("mov.u64 %rd5, 81985529216486895;", "opaque"),
        ("frobnicate.b64 %rd5, %rd2;", "unknown"),
        ("neg.s64 %rd5, %rd2;", "unknown"),
    ] {
        assert_eq!(
            with_parameters(&format!("{step}\nld.global.u32 %r3, [%rd5];")),
            origin,
            "{step}"
        );
    }
}

#[test]
fn an_unpacked_pointer_is_a_root_of_its_own() {
    for step in [
        "mov.b64 %rd5, {%r1, %r2};",
        "mov.b64 %rd5, %fd1;",
        // Takes a tag out of the high bits, or of many low ones.
        "and.b64 %rd5, %rd1, 281474976710655;",
        "and.b64 %rd5, %rd1, -4096;",
        "and.b64 %rd5, %rd1, %rd4;",
        "shr.u64 %rd5, %rd1, 8;",
        "shr.u64 %rd5, %rd1, 16;",
        "bfe.u64 %rd5, %rd1, 8, 48;",
        "xor.b64 %rd5, %rd1, 255;",
        "xor.b64 %rd5, %rd1, %rd3;",
        "xor.b64 %rd5, %rd1, %rd2;",
        "or.b64 %rd5, %rd1, %rd3;",
        "cvt.u64.u32 %rd6, %r1; shl.b64 %rd6, %rd6, 32; cvt.u64.u32 %rd7, %r2; or.b64 %rd5, %rd6, %rd7;",
        "cvt.u64.u32 %rd6, %r1; cvt.u64.u32 %rd7, %r2; bfi.b64 %rd5, %rd6, %rd7, 32, 32;",
        "shl.b64 %rd6, %rd1, 4; cvta.to.global.u64 %rd5, %rd6;",
    ] {
        assert_eq!(
            with_parameters(&format!("{step}\nld.global.u32 %r3, [%rd5];")),
            "lookup in doubt",
            "{step}"
        );
    }
    // Indexed by a word: the pointer, if it is one; else it is only known at
    // run time.
    let unpacked = |step: &str| {
        with_parameters(&format!(
            "{step}\nadd.s64 %rd7, %rd5, %rd4;\nld.u8 %h1, [%rd7];"
        ))
    };
    assert_eq!(unpacked("shr.u64 %rd5, %rd3, 8;"), "several in doubt");
    assert_eq!(unpacked("shl.b64 %rd5, %rd3, 4;"), "parameter 40 in doubt");
    assert_eq!(
        unpacked("mul.wide.u32 %rd5, %r2, 65536;"),
        "parameter 40 in doubt"
    );
    // A number of 32 bits is none, however it is scaled to an element.
    assert_eq!(unpacked("mul.wide.u32 %rd5, %r2, 48;"), "parameter 40");
    // A union: a pointer on one path, a number on the other.
    assert_eq!(
        with_parameters(
            "@%p1 bra NUMBER;\nld.u8 %h1, [%rd3];\nret;\nNUMBER:\n\
             add.s64 %rd5, %rd4, %rd3;\nld.u8 %h1, [%rd5];"
        ),
        "parameter 24 in doubt"
    );
    // Pointers that are known stay what they are.
    for step in [
        "and.b64 %rd5, %rd2, -4096;",
        "xor.b64 %rd5, %rd2, 64;",
        "shl.b64 %rd6, %rd1, 3; add.s64 %rd5, %rd2, %rd6;",
        "shl.b64 %rd6, %rd1, 3; or.b64 %rd5, %rd2, %rd6;",
        "mov.b64 %rd6, {%r1, %r2}; add.s64 %rd5, %rd2, %rd6;",
    ] {
        assert_eq!(
            with_parameters(&format!("{step}\nld.global.u32 %r3, [%rd5];")),
            "parameter 8",
            "{step}"
        );
    }
}

#[test]
fn a_difference_of_pointers_can_turn_one_into_the_other() {
    // LLVM's strength reduction writes q as p + (q - p).
    let body = "sub.s64 %rd5, %rd1, %rd2;\nadd.s64 %rd6, %rd2, %rd5;\nld.global.u32 %r3, [%rd6];\n";
    assert_eq!(with_parameters(body), "unknown");
    // In elements, too, as a compiler writes it that does not fold shifts.
    let body = "sub.s64 %rd5, %rd1, %rd2;\nshr.s64 %rd5, %rd5, 2;\nshl.b64 %rd5, %rd5, 2;\n\
                add.s64 %rd6, %rd2, %rd5;\nld.global.u32 %r3, [%rd6];\n";
    assert_eq!(with_parameters(body), "unknown");
    // The difference within one buffer is a number.
    let body = "add.s64 %rd5, %rd2, 64;\nsub.s64 %rd6, %rd5, %rd2;\nadd.s64 %rd7, %rd2, %rd6;\nld.global.u32 %r3, [%rd7];";
    assert_eq!(with_parameters(body), "parameter 8");
}

#[test]
fn of_two_candidates_the_one_known_to_be_a_pointer_wins() {
    // q is declared .ptr; s+16 is eight bytes of anything.
    assert_eq!(
        with_parameters("add.s64 %rd5, %rd2, %rd4;\nld.u8 %h1, [%rd5];"),
        "parameter 8"
    );
    assert_eq!(
        with_parameters("add.s64 %rd5, %rd4, %rd2;\nld.u8 %h1, [%rd5];"),
        "parameter 8"
    );
    // p is used as a pointer elsewhere.
    let body = "ld.u8 %h2, [%rd1+4];\nadd.s64 %rd5, %rd4, %rd1;\nld.u8 %h1, [%rd5];";
    assert_eq!(with_parameters(body), "parameter 0 in doubt");
    // Went through cvta.
    let body =
        "cvta.to.global.u64 %rd6, %rd1;\nadd.s64 %rd5, %rd4, %rd6;\nld.global.u8 %h1, [%rd5];";
    assert_eq!(with_parameters(body), "parameter 0");
    // Which one is the pointer is only known at run time.
    assert_eq!(
        with_parameters("add.s64 %rd5, %rd3, %rd4;\nld.u8 %h1, [%rd5];"),
        "several in doubt"
    );
    // Two pointers make none.
    let body =
        "cvta.to.global.u64 %rd6, %rd1;\nadd.s64 %rd5, %rd2, %rd6;\nld.global.u8 %h1, [%rd5];";
    assert_eq!(with_parameters(body), "unknown");
}

#[test]
fn variables_and_other_spaces() {
    assert_eq!(
        last_access("mov.u64 %rd1, table;\nld.global.u32 %r1, [%rd1+4];"),
        "variable table"
    );
    assert_eq!(
        last_access("mov.u64 %rd1, table+8;\nld.global.u32 %r1, [%rd1+4];"),
        "variable table"
    );
    assert_eq!(
        last_access("mov.u64 %rd1, elsewhere;\nld.global.u32 %r1, [%rd1];"),
        "variable elsewhere"
    );
    assert_eq!(
        last_access("ld.global.u32 %r1, [table+60];"),
        "symbol table+60"
    );
    assert_eq!(
        last_access("cvta.shared.u64 %rd1, tile;\nld.u32 %r1, [%rd1];"),
        "whole tile"
    );
    assert_eq!(
        last_access("mov.u64 %rd1, tile;\ncvta.shared.u64 %rd2, %rd1;\nld.u32 %r1, [%rd2];"),
        "whole tile"
    );
    assert_eq!(
        last_access(
            "mov.u64 %rd1, depot;\ncvta.local.u64 %rd2, %rd1;\nadd.u64 %rd3, %rd2, 8;\nld.u32 %r1, [%rd3];"
        ),
        "whole depot"
    );
    assert_eq!(
        last_access("cvta.const.u64 %rd1, fixed;\nld.u32 %r1, [%rd1];"),
        "whole fixed"
    );
    assert_eq!(
        last_access("mov.b64 %rd1, s;\ncvta.param.u64 %rd2, %rd1;\nld.u32 %r1, [%rd2];"),
        "whole s"
    );
}

#[test]
fn addresses_in_shared_memory_are_followed_through_32_bits() {
    let tile = |body: &str| last_access(&format!("mov.u32 %r1, tile;\n{body}"));
    assert_eq!(
        tile("add.s32 %r2, %r1, 8;\nld.shared.u32 %r3, [%r2+4];"),
        "whole tile"
    );
    assert_eq!(
        tile("mad.lo.s32 %r2, %r3, 4, %r1;\nst.shared.u32 [%r2], %r3;"),
        "whole tile"
    );
    assert_eq!(
        tile("add.s32 %r2, %r1, 127;\nand.b32 %r2, %r2, -128;\nld.shared.u32 %r3, [%r2];"),
        "whole tile"
    );
    // Special registers, and what other lanes have of them, are numbers.
    for step in [
        "mov.u32 %r2, %tid.x; sub.s32 %r2, %r3, %r2;",
        "mov.u32 %r2, %laneid; shfl.sync.bfly.b32 %r2, %r2, 1, 31, -1; sub.s32 %r2, %r3, %r2;",
        "mov.u32 %r2, %ctaid.x; bfi.b32 %r2, %r2, %r3, 4, 4; sub.s32 %r2, %r3, %r2;",
        "prmt.b32 %r2, %r3, %r3, 30212; sub.s32 %r2, %r3, %r2;",
        "lop3.b32 %r2, %r3, %r3, %r3, 128; sub.s32 %r2, %r3, %r2;",
        "mov.b32 %r2, {%h1, %h2}; sub.s32 %r2, %r3, %r2;",
        "mov.b64 {%r2, %r4}, %rd9; sub.s32 %r2, %r3, %r2;",
    ] {
        assert_eq!(
            tile(&format!(
                "mov.u32 %r3, %ntid.x; cvt.u64.u32 %rd9, %r3;\n{step}\n\
                 add.s32 %r2, %r1, %r2;\nld.shared.u8 %h1, [%r2];"
            )),
            "whole tile",
            "{step}"
        );
    }
    // As inline assembly has it: generic, to shared, to 32 bits.
    assert_eq!(
        last_access(
            "mov.u64 %rd1, tile;\ncvta.shared.u64 %rd2, %rd1;\ncvta.to.shared.u64 %rd3, %rd2;\n\
             cvt.u32.u64 %r1, %rd3;\nld.shared.u32 %r2, [%r1];"
        ),
        "whole tile"
    );
    assert_eq!(
        tile("cvt.u64.u32 %rd1, %r1;\nld.shared.u32 %r3, [%rd1];"),
        "whole tile"
    );
    // What memory hands over may be anything.
    assert_eq!(
        tile("ld.shared.u32 %r2, [%r1];\nld.shared.u32 %r3, [%r2];"),
        "integer"
    );
    // Another lane's address in a place is one in the same place.
    assert_eq!(
        tile("shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nld.shared.u32 %r3, [%r2];"),
        "whole tile"
    );
    assert_eq!(
        tile("lop3.b32 %r2, %r1, %r1, %r1, 128;\nld.shared.u32 %r3, [%r2];"),
        "opaque"
    );
    // The difference of two addresses makes one of the other.
    assert_eq!(
        tile(
            "mov.u32 %r2, pad;\nsub.s32 %r3, %r2, %r1;\nadd.s32 %r3, %r1, %r3;\nld.shared.u32 %r3, [%r3];"
        ),
        "unknown"
    );
    // Half of a global pointer is a number.
    let body = "cvt.u32.u64 %r3, %rd2;\nmov.u32 %r2, tile;\nadd.s32 %r2, %r2, %r3;\nld.shared.u32 %r3, [%r2];";
    assert_eq!(with_parameters(body), "whole tile");
}

#[test]
fn a_scaled_difference_makes_one_pointer_of_another() {
    let indexed = |step: &str| {
        with_parameters(&format!(
            "cvta.to.global.u64 %rd5, %rd2;\nsub.s64 %rd6, %rd1, %rd2;\n{step}\n\
             add.s64 %rd9, %rd5, %rd8;\nld.global.u32 %r3, [%rd9];"
        ))
    };
    // As a number of elements, to which an index was added.
    for step in [
        "shr.s64 %rd7, %rd6, 2; cvt.s64.s32 %rd10, %r2; add.s64 %rd7, %rd7, %rd10; shl.b64 %rd8, %rd7, 2;",
        "shr.s64 %rd7, %rd6, 2; add.s64 %rd7, %rd7, %rd4; shl.b64 %rd8, %rd7, 2;",
        "shr.s64 %rd7, %rd6, 2; sub.s64 %rd7, 8, %rd7; shl.b64 %rd8, %rd7, 2;",
        "shr.s64 %rd7, %rd6, 2; or.b64 %rd7, %rd7, 1; shl.b64 %rd8, %rd7, 2;",
        "shr.s64 %rd7, %rd6, 2; cvt.u32.u64 %r4, %rd7; add.s32 %r4, %r4, %r2; mul.wide.s32 %rd8, %r4, 4;",
        // Elements of 12 bytes: times the inverse of 3.
        "shr.s64 %rd7, %rd6, 2; mul.lo.s64 %rd7, %rd7, -6148914691236517205; add.s64 %rd7, %rd7, 5; mul.lo.s64 %rd8, %rd7, 12;",
        "div.s64 %rd7, %rd6, 12; mad.lo.s64 %rd8, %rd7, 12, 24;",
    ] {
        assert_eq!(indexed(step), "unknown", "{step}");
    }
    // The middle of an array, and an index that is not scaled back.
    for step in [
        "shr.s64 %rd7, %rd6, 3; shl.b64 %rd8, %rd7, 2;",
        "shr.s64 %rd7, %rd6, 2; shr.u64 %rd10, %rd7, 63; add.s64 %rd7, %rd7, %rd10; shr.s64 %rd7, %rd7, 1; shl.b64 %rd8, %rd7, 2;",
        "shr.s64 %rd8, %rd6, 2;",
    ] {
        assert_eq!(indexed(step), "parameter 8", "{step}");
    }
    // One number on one path, another on the other.
    assert_eq!(
        indexed("shr.s64 %rd7, %rd6, 2;\n@%p1 mov.u64 %rd7, 0;\nshl.b64 %rd8, %rd7, 2;"),
        "unknown"
    );
    assert_eq!(
        indexed("shr.s64 %rd7, %rd6, 2;\n@%p1 shr.s64 %rd7, %rd6, 3;\nshl.b64 %rd8, %rd7, 2;"),
        "parameter 8"
    );
}

#[test]
fn a_declared_region_is_a_root_of_its_own() {
    let marker = "mov.b64 ringfence_bytes, %rd3;\nmov.b64 %rd5, %rd2;\n";
    assert_eq!(
        with_parameters(&format!(
            "{{ .reg .b64 ringfence_bytes;\n{marker} }}\nld.u32 %r3, [%rd5+4];"
        )),
        "declared"
    );
    // Not in one scope: no marker.
    assert_eq!(
        with_parameters(
            "{ .reg .b64 ringfence_bytes;\nmov.b64 ringfence_bytes, %rd3; }\nmov.b64 %rd5, %rd2;\nld.u32 %r3, [%rd5+4];"
        ),
        "parameter 8"
    );
}

#[test]
fn values_that_appear_on_the_device_are_looked_up() {
    assert_eq!(
        with_parameters("ld.global.u64 %rd5, [%rd2];\nld.u32 %r3, [%rd5+4];"),
        "lookup"
    );
    assert_eq!(
        with_parameters("ld.global.v2.u64 {%rd5, %rd6}, [%rd2];\nld.u32 %r3, [%rd6];"),
        "lookup"
    );
    assert_eq!(
        with_parameters("atom.global.cas.b64 %rd5, [%rd2], %rd3, %rd4;\nld.u32 %r3, [%rd5];"),
        "lookup"
    );
    let call = "{ .param .b64 a; .param .b64 v; st.param.b64 [a], %rd2; call (v), get, (a); ld.param.b64 %rd5, [v]; }\n";
    assert_eq!(
        with_parameters(&format!("{call}ld.u32 %r3, [%rd5];")),
        "lookup"
    );
    let call = call.replace("get", "cudaGetParameterBufferV2");
    assert_eq!(
        with_parameters(&format!("{call}st.u32 [%rd5], %r1;")),
        "system"
    );
}

#[test]
fn a_predicated_definition_may_leave_the_old_value() {
    let body = "mov.u64 %rd5, %rd1;\n@%p1 mov.u64 %rd5, %rd2;\nld.global.u32 %r3, [%rd5];";
    assert_eq!(with_parameters(body), "several");
    let body = "mov.u64 %rd5, %rd2;\n@%p1 add.s64 %rd5, %rd5, 8;\nld.global.u32 %r3, [%rd5];";
    assert_eq!(with_parameters(body), "parameter 8");
    assert_eq!(
        with_parameters("@%p1 ld.global.u64 %rd5, [%rd2];\n@%p1 ld.u32 %r3, [%rd5];"),
        "lookup"
    );
}

#[test]
fn joins_of_paths() {
    let diamond = |left: &str, right: &str| {
        with_parameters(&format!(
            "@%p1 bra L;\n{left}\nbra M;\nL:\n{right}\nM:\nld.global.u32 %r3, [%rd5];"
        ))
    };
    assert_eq!(
        diamond("mov.u64 %rd5, %rd2;", "add.s64 %rd5, %rd2, 4;"),
        "parameter 8"
    );
    assert_eq!(
        diamond("mov.u64 %rd5, %rd1;", "mov.u64 %rd5, %rd2;"),
        "several"
    );
    // Null is neutral: an access through it is outside any bounds.
    assert_eq!(
        diamond("mov.u64 %rd5, %rd2;", "mov.u64 %rd5, 0;"),
        "parameter 8"
    );
    assert_eq!(
        diamond("cvta.to.global.u64 %rd5, %rd2;", "shl.b64 %rd5, %rd4, 2;"),
        "unknown"
    );
    assert_eq!(
        with_parameters("selp.b64 %rd5, %rd1, %rd2, %p1;\nld.global.u32 %r3, [%rd5];"),
        "several"
    );
    assert_eq!(
        with_parameters(
            "add.s64 %rd6, %rd2, 4;\nselp.b64 %rd5, %rd6, %rd2, %p1;\nld.global.u32 %r3, [%rd5];"
        ),
        "parameter 8"
    );
}

#[test]
fn pointers_that_advance_in_a_loop_keep_their_root() {
    let body =
        "mov.u64 %rd5, %rd2;\nL:\nld.global.u32 %r3, [%rd5];\nadd.s64 %rd5, %rd5, 16;\n@%p1 bra L;";
    assert_eq!(with_parameters(body), "parameter 8");
    // Looked up before the loop: one instance.
    let body = "ld.global.u64 %rd5, [%rd2];\nL:\nld.global.u32 %r3, [%rd5];\nadd.s64 %rd5, %rd5, 16;\n@%p1 bra L;";
    assert_eq!(with_parameters(body), "lookup");
    // Two buffers that are swapped in every iteration.
    let body = "L:\nld.global.u32 %r3, [%rd1];\nmov.u64 %rd5, %rd1;\nmov.u64 %rd1, %rd2;\nmov.u64 %rd2, %rd5;\n@%p1 bra L;";
    assert_eq!(with_parameters(body), "several");
}

#[test]
fn the_node_of_the_last_round_is_another_instance() {
    // prev = node; node = node->next; *prev: one instruction makes both, but
    // the bounds that it found last are not those of `prev`.
    let body = "mov.u64 %rd6, 0;\nmov.u64 %rd5, %rd2;\nL:\nmov.u64 %rd6, %rd5;\nld.global.u64 %rd5, [%rd5];\n\
                ld.u32 %r3, [%rd6+8];\n@%p1 bra L;";
    assert_eq!(with_parameters(body), "several");
}

#[test]
fn inner_scopes_hide_outer_registers() {
    let body =
        "mov.u64 %rd5, %rd2;\n{ .reg .b64 %rd5; mov.u64 %rd5, %rd1; ld.global.u32 %r3, [%rd5]; }";
    assert_eq!(with_parameters(body), "parameter 0");
    let body =
        "mov.u64 %rd5, %rd2;\n{ .reg .b64 %rd5; mov.u64 %rd5, %rd1; }\nld.global.u32 %r3, [%rd5];";
    assert_eq!(with_parameters(body), "parameter 8");
    let body = "mov.u64 %rd5, %rd2;\n{ .reg .b64 t; mov.u64 t, %rd1; ld.global.u32 %r3, [t]; }";
    assert_eq!(with_parameters(body), "parameter 0");
}
