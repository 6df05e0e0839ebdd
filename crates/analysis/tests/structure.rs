//! Control flow, dominators and loops of small functions, and which loops are open.

use analysis::{Analysis, BlockId, Loops, ModuleSymbols, open_loops};

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

/// The first instructions of open loops.
fn open(body: &str) -> Vec<u32> {
    of(body, open_loops)
}

#[test]
fn counted_loops_are_closed() {
    // By a limit that is loaded before; by one that is computed inside.
    let counted = "ld.global.u32 %r2, [%r3];\nmov.u32 %r1, 0;\nL: add.u32 %r1, %r1, %r4;\n\
                   setp.lt.u32 %p1, %r1, %r2;\n@%p1 bra L;";
    assert_eq!(open(counted), []);
    let halved =
        "L: shr.u32 %r1, %r1, 1;\nld.global.u32 %r2, [%r1];\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra L;";
    assert_eq!(open(halved), []);
    // By another exit than the one that looks at memory.
    let either = "L: setp.ge.u32 %p1, %r1, 9;\n@%p1 exit;\nadd.u32 %r1, %r1, 1;\n\
                  ld.global.u32 %r2, [%r1];\nsetp.ne.u32 %p2, %r2, 0;\n@%p2 bra L;";
    assert_eq!(open(either), []);
    assert_eq!(open("mov.u32 %r1, 0;\nret;"), []);
}

#[test]
fn loops_that_memory_decides_are_open() {
    assert_eq!(
        open(
            "mov.u32 %r1, 0;\nL: ld.global.u32 %r2, [%r1];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra L;"
        ),
        [1]
    );
    // The step is loaded; the condition is kept from an earlier iteration.
    assert_eq!(
        open(
            "L: ld.shared.u32 %r2, [%r3];\nadd.u32 %r1, %r1, %r2;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra L;"
        ),
        [0]
    );
    assert_eq!(
        open("L: @%p2 setp.lt.u32 %p1, %r1, 9;\natom.global.add.u32 %r1, [%r3], 1;\n@%p1 bra L;"),
        [0]
    );
    // A counter that only moves where memory says so.
    let moves = "L: ld.global.u32 %r2, [%r3];\nsetp.ne.u32 %p2, %r2, 0;\n@%p2 bra N;\n\
                 add.u32 %r1, %r1, 1;\nN: setp.lt.u32 %p1, %r1, 9;\n@%p1 bra L;";
    assert_eq!(open(moves), [0]);
    // No exit at all, and a cycle with two ways in.
    assert_eq!(open("L: bra L;"), [0]);
    assert_eq!(
        open("@%p1 bra B;\nA: mov.u32 %r1, 0;\nB: mov.u32 %r2, 0;\n@%p2 bra A;"),
        [1]
    );
    // The inner loop is closed, the outer one is not.
    let nested = "L: mov.u32 %r1, 0;\nM: add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra M;\n\
                  ld.global.u32 %r2, [%r3];\nsetp.ne.u32 %p2, %r2, 0;\n@%p2 bra L;";
    assert_eq!(open(nested), [0]);
}
