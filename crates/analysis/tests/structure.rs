//! Control flow, dominators and loops of small functions.

use analysis::{Analysis, BlockId, Loops, ModuleSymbols};

/// Analyses a body and answers what `judge` makes of it.
fn of<T>(body: &str, judge: impl FnOnce(&Analysis<'_, '_>) -> T) -> T {
    let text = format!(
        ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k()\n\
         {{\n.reg .pred %p<9>;\n.reg .b32 %r<9>;\n{body}\n}}\n"
    );
    let module = ptx::parse(&text).unwrap_or_else(|errors| panic!("{}\n{text}", errors[0]));
    let symbols = ModuleSymbols::of(&module);
    for item in &module.items {
        if let ptx::Item::Function(function) = item {
            return judge(&Analysis::of(&symbols, function).expect("a body"));
        }
    }
    panic!("no function")
}

/// Edges as `from>to`, in order.
fn edges(body: &str) -> String {
    of(body, |analysis| {
        let blocks = analysis.cfg.blocks.iter().enumerate();
        let all: Vec<String> = blocks
            .flat_map(|(from, block)| {
                block
                    .successors
                    .iter()
                    .map(move |to| format!("{from}>{}", to.0))
            })
            .collect();
        all.join(" ")
    })
}

#[test]
fn branches_and_falls() {
    assert_eq!(edges("ret;"), "");
    assert_eq!(
        edges("@%p1 bra L;\nmov.u32 %r1, 0;\nL: ret;"),
        "0>1 0>2 1>2"
    );
    assert_eq!(edges("bra L;\nmov.u32 %r1, 0;\nL: ret;"), "0>2 1>2");
    assert_eq!(
        edges("@%p1 ret;\nmov.u32 %r1, 0;\n@!%p1 exit;\ntrap;"),
        "0>1 1>2"
    );
    assert_eq!(edges("L: @%p1 bra L;"), "0>0");
}

#[test]
fn labels_belong_to_their_scope() {
    // Inline assembly repeats its labels in scopes of its own.
    let body = "{ W: @%p1 bra W; }\n{ W: @%p2 bra W; }\nret;";
    assert_eq!(edges(body), "0>0 0>1 1>1 1>2");
    assert_eq!(
        edges("{ @%p1 bra OUT; }\nmov.u32 %r1, 0;\nOUT: ret;"),
        "0>1 0>2 1>2"
    );
}

#[test]
fn indexed_branches_go_to_their_targets() {
    let body = "T: .branchtargets A, B;\nbrx.idx %r1, T;\nA: mov.u32 %r2, 0;\nB: ret;";
    assert_eq!(edges(body), "0>1 0>2 1>2");
}

/// LLVM marks code of no line so: it belongs to the line before it.
#[test]
fn line_zero_is_the_line_before_it() {
    let body = ".loc 1 0 3\nmov.u32 %r1, 0;\n.loc 1 7 5\nmov.u32 %r2, 0;\n.loc 1 0 9\nmov.u32 %r3, 0;\n\
                .loc 1 8 1\nret;";
    let lines = of(body, |analysis| {
        let instructions = analysis.code.instructions.iter();
        let lines = instructions.map(|inst| inst.loc.map(|loc| loc.line));
        lines.collect::<Vec<_>>()
    });
    assert_eq!(lines, [None, Some(7), Some(7), Some(8)]);
}

#[test]
fn a_label_at_the_end_is_a_block() {
    assert_eq!(edges("@%p1 bra END;\nmov.u32 %r1, 0;\nEND:"), "0>1 0>2 1>2");
}

#[test]
fn dominators_of_a_diamond() {
    of(
        "@%p1 bra L;\nmov.u32 %r1, 0;\nbra M;\nL: mov.u32 %r1, 1;\nM: ret;",
        |analysis| {
            let dominators = &analysis.dominators;
            assert_eq!(dominators.immediate(BlockId(3)), Some(BlockId(0)));
            assert!(dominators.dominates(BlockId(0), BlockId(3)));
            assert!(!dominators.dominates(BlockId(1), BlockId(3)));
            assert!(dominators.dominates(BlockId(2), BlockId(2)));
        },
    );
}

#[test]
fn nested_loops() {
    let body = "mov.u32 %r1, 0;\nOUTER: mov.u32 %r2, 0;\nINNER: add.s32 %r2, %r2, 1;\n@%p1 bra INNER;\n\
                add.s32 %r1, %r1, 1;\n@%p2 bra OUTER;\nret;";
    of(body, |analysis| {
        let loops = Loops::of(&analysis.cfg, &analysis.dominators);
        let found: Vec<_> = loops
            .loops
            .iter()
            .map(|l| {
                (
                    l.header.0,
                    l.blocks.iter().map(|b| b.0).collect::<Vec<_>>(),
                    l.depth,
                )
            })
            .collect();
        assert_eq!(found, [(1, vec![1, 2, 3], 1), (2, vec![2], 2)]);
        assert_eq!(
            loops.innermost(BlockId(2)).map(|l| l.header),
            Some(BlockId(2))
        );
        assert_eq!(
            loops.innermost(BlockId(3)).map(|l| l.header),
            Some(BlockId(1))
        );
        assert_eq!(loops.innermost(BlockId(0)).map(|l| l.header), None);
    });
}

#[test]
fn code_that_cannot_be_reached_is_listed_but_not_ordered() {
    of("bra L;\nD: mov.u32 %r1, 0;\nbra D;\nL: ret;", |analysis| {
        assert!(!analysis.cfg.is_reachable(BlockId(1)));
        assert_eq!(analysis.cfg.order, [BlockId(0), BlockId(2)]);
    });
}
