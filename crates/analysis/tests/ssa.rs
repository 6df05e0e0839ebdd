//! SSA form: each register that an instruction reads has the value that was
//! last written to it, for every path of control.

use analysis::{Analysis, BlockId, Code, Definition, ModuleSymbols, Role, Use, ValueId};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Analyses a body and answers what `judge` makes of it.
fn of<T>(body: &str, judge: impl FnOnce(&Analysis<'_, '_>) -> T) -> T {
    let text = format!(
        ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n\
         {{\n.reg .pred %p<3>;\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n.reg .f32 %f<3>;\n{body}\n}}\n"
    );
    let module = ptx::parse(&text).unwrap_or_else(|errors| panic!("{}\n{text}", errors[0]));
    let symbols = ModuleSymbols::of(&module);
    let function = module.functions().next().expect("a function");
    judge(&Analysis::of(&symbols, function).expect("a body"))
}

fn is_read(role: Role) -> bool {
    matches!(role, Role::Read | Role::Address | Role::Guard)
}

/// Walks over a function along `choices` and keeps the value of each register;
/// returns how many reads there were.
fn walk(analysis: &Analysis<'_, '_>, choices: &[usize]) -> usize {
    let mut held: BTreeMap<u32, ValueId> = BTreeMap::new();
    let mut block = analysis.cfg.order[0];
    // What is there at the start is not among the arguments of a phi.
    for phi in analysis.ssa.phis(block) {
        held.insert(analysis.ssa.values[phi.0 as usize].register.0, phi);
    }
    let mut reads = 0;
    for &choice in choices {
        for at in analysis.cfg.instructions(block) {
            reads += step(analysis, at, &mut held);
        }
        let successors = &analysis.cfg.blocks[block.0 as usize].successors;
        let Some(&to) = successors.get(choice % successors.len().max(1)) else {
            break;
        };
        enter(analysis, block, to, &mut held);
        block = to;
    }
    reads
}

fn step(analysis: &Analysis<'_, '_>, at: usize, held: &mut BTreeMap<u32, ValueId>) -> usize {
    let code: &Code<'_, '_> = &analysis.code;
    let definition = |value: ValueId| analysis.ssa.values[value.0 as usize].definition;
    let mut reads = 0;
    for reference in code.references_of(at) {
        let (Some(register), true) = (reference.referent.register(), is_read(reference.role))
        else {
            continue;
        };
        reads += 1;
        match held.get(&register.0) {
            Some(&expected) => assert_eq!(reference.value, expected, "instruction {at}"),
            None => assert_eq!(definition(reference.value), Definition::Undefined),
        }
    }
    for reference in code.references_of(at) {
        let (Some(register), Role::Write) = (reference.referent.register(), reference.role) else {
            continue;
        };
        let Definition::Instruction { old, .. } = definition(reference.value) else {
            panic!("a written value is made by its instruction");
        };
        let is_guarded = code.guard(at).is_some();
        assert_eq!(old.is_some(), is_guarded);
        if let (Some(old), Some(&before)) = (old, held.get(&register.0)) {
            assert_eq!(old, before);
        }
        // (It also represents the old value, where that survives.)
        held.insert(register.0, reference.value);
    }
    reads
}

fn enter(
    analysis: &Analysis<'_, '_>,
    from: BlockId,
    to: BlockId,
    held: &mut BTreeMap<u32, ValueId>,
) {
    let ssa = &analysis.ssa;
    let before = held.clone();
    for phi in ssa.phis(to) {
        let register = ssa.values[phi.0 as usize].register;
        let argument = ssa.phi_argument(&analysis.cfg, phi, from).expect("an edge");
        match before.get(&register.0) {
            Some(&expected) => assert_eq!(argument, expected),
            None => assert_eq!(
                ssa.values[argument.0 as usize].definition,
                Definition::Undefined
            ),
        }
        held.insert(register.0, phi);
    }
}

/// Counts each use once, from both ends.
fn uses_are_all_there_is(analysis: &Analysis<'_, '_>) {
    let (code, ssa) = (&analysis.code, &analysis.ssa);
    let mut found = 0;
    for id in 0..ssa.values.len() as u32 {
        let id = ValueId(id);
        for place in analysis.uses(id) {
            found += 1;
            match *place {
                Use::Read {
                    instruction,
                    reference,
                } => {
                    let range = code.instructions[instruction as usize].references;
                    assert!((range.0..range.1).contains(&reference));
                    let reference = &code.references[reference as usize];
                    assert!(is_read(reference.role) && reference.value == id);
                }
                Use::Argument(phi) => assert!(ssa.phi_arguments(phi).contains(&id)),
                Use::Kept(value) => {
                    let definition = ssa.values[value.0 as usize].definition;
                    assert!(
                        matches!(definition, Definition::Instruction { old, .. } if old == Some(id))
                    );
                }
            }
        }
    }
    let named = code.references.iter();
    let read = named.filter(|r| is_read(r.role) && r.value != ValueId::NONE);
    let (mut kept, mut arguments) = (0, 0);
    for (id, value) in ssa.values.iter().enumerate() {
        let phi = ssa.phi_arguments(ValueId(id as u32)).iter();
        arguments += phi.filter(|&&argument| argument != ValueId::NONE).count();
        kept += usize::from(matches!(
            value.definition,
            Definition::Instruction { old: Some(_), .. }
        ));
    }
    assert_eq!(found, read.count() + kept + arguments);
}

#[test]
fn registers_of_all_kinds_have_values() {
    let body = "setp.ne.s32 %p1, %r1, 0;\n@%p1 bra L;\nmov.f32 %f1, 0f00000000;\nmov.u32 %r2, 1;\n\
                L: add.f32 %f2, %f1, %f1;\n@!%p1 mov.u32 %r2, %r1;\nst.global.u32 [%rd1], %r2;\nret;";
    of(body, |analysis| {
        let joins: Vec<_> = analysis.ssa.phis(BlockId(2)).collect();
        // One of %f1 and one of %r2: %p1 and %rd1 have one value each.
        assert_eq!(joins.len(), 2);
        assert_eq!(analysis.ssa.phis(BlockId(1)).len(), 0);
        assert_eq!(
            (walk(analysis, &[0, 0, 0]), walk(analysis, &[1, 0])),
            (8, 8)
        );
        uses_are_all_there_is(analysis);
        let guard = analysis.code.guard(1).expect("a guard").value;
        assert_eq!(analysis.ssa.made_by(guard), Some(0));
        // The branch and the predicated move.
        assert_eq!(analysis.uses(guard).len(), 2);
    });
}

#[test]
fn what_is_not_read_again_needs_no_phi() {
    let body = "mov.u32 %r1, 0;\nL: add.s32 %r1, %r1, 1;\nmov.u32 %r2, %r1;\nsetp.lt.s32 %p1, %r1, 9;\n\
                @%p1 bra L;\nret;";
    of(body, |analysis| {
        let register = |phi: ValueId| analysis.ssa.values[phi.0 as usize].register.0;
        // Predicates are declared first, from %p0 to %p2.
        let joined: Vec<u32> = analysis.ssa.phis(BlockId(1)).map(register).collect();
        assert_eq!(joined, [3 + 1]);
    });
}

/// Instructions, how the block ends, and where it may go.
type Block = (Vec<(u8, u8, u8)>, u8, u8);

/// A body of blocks.
fn body(blocks: &[Block]) -> String {
    let count = blocks.len();
    let mut text = String::new();
    for (number, (instructions, end, to)) in blocks.iter().enumerate() {
        text += &format!("B{number}:\n");
        for &(kind, a, b) in instructions {
            let (a, b) = (a % 3, b % 3);
            text += &match kind % 7 {
                0 => format!("add.s32 %r{a}, %r{b}, 1;\n"),
                1 => format!("@%p{b} mov.u32 %r{a}, %r{b};\n"),
                2 => format!("setp.lt.s32 %p{a}, %r{b}, 7;\n"),
                3 => format!("mov.u64 %rd{a}, %rd{b};\n"),
                4 => format!("@!%p{a} add.s64 %rd{a}, %rd{b}, %rd{a};\n"),
                5 => format!("ld.global.u32 %r{a}, [%rd{b}];\n"),
                _ => format!("add.f32 %f{a}, %f{b}, %f{a};\n"),
            };
        }
        let to = usize::from(*to) % count;
        text += &match end % 4 {
            0 => format!("bra B{to};\n"),
            1 | 2 => format!("@%p{} bra B{to};\n", end % 3),
            _ => String::new(),
        };
    }
    text + "ret;"
}

proptest! {
    #[test]
    fn every_way_through_a_function_finds_its_values(
        blocks in proptest::collection::vec(
            (proptest::collection::vec(any::<(u8, u8, u8)>(), 0..5), any::<u8>(), any::<u8>()),
            1..9,
        ),
        choices in proptest::collection::vec(any::<usize>(), 1..60),
    ) {
        of(&body(&blocks), |analysis| {
            walk(analysis, &choices);
            uses_are_all_there_is(analysis);
        });
    }
}
