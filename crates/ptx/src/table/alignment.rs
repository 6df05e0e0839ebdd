//! The alignment that instructions require of the addresses they access.
//!
//! Hardware stops a kernel that violates it, with error 716. Mostly it is what
//! the PTX ISA requires. `wmma` requires less: the ISA demands that each row be
//! aligned to the lane's whole fragment (9.7.14.4.2, "Address Alignment"), 32
//! bytes for `.m16n16k16` of `.f16`, and real programs pad rows by 16. ptxas
//! compiles a fragment to loads and stores of 1 to 16 bytes, or to the rows of
//! `ldmatrix`; their alignment is required. (Read from what ptxas 13.0 makes of
//! each fragment for sm_75, sm_80, sm_90 and sm_100; where they differ, the
//! smaller counts.)

use super::rows::AlignmentRule;
use super::{Space, Width};
use crate::{Instruction, Modifier, Opcode, OperandKind, Type};

/// Bytes that an access's address must be a multiple of.
pub(super) fn of(
    rule: AlignmentRule,
    width: Width,
    space: Space,
    instruction: &Instruction<'_>,
) -> u32 {
    let opcode = &instruction.opcode;
    let bytes = match rule {
        AlignmentRule::Whole => match width {
            // (A vector's last elements may not be read.)
            Width::Bytes(bytes) => bytes.next_power_of_two(),
            _ => 1,
        },
        AlignmentRule::Bytes(bytes) => bytes,
        AlignmentRule::Copied => match instruction.operands.get(2).map(|o| &o.kind) {
            Some(OperandKind::Integer(bytes)) => u32::try_from(*bytes).unwrap_or(1),
            _ => 1,
        },
        AlignmentRule::Fragment => match width {
            Width::Matrix { element_bits, .. } => fragment(opcode, element_bits, space),
            _ => 1,
        },
        AlignmentRule::Field => opcode.types().last().map_or(1, Type::bytes),
        AlignmentRule::Any | AlignmentRule::Described => 1,
    };
    if bytes.is_power_of_two() { bytes } else { 1 }
}

/// What the loads and stores of a `wmma` fragment need.
fn fragment(opcode: &Opcode<'_>, element_bits: u32, space: Space) -> u32 {
    let is_factor = opcode.has(Modifier::A) || opcode.has(Modifier::B);
    // Whether what a lane of `mma` holds of a row, or column, is contiguous.
    let is_straight = opcode.has(Modifier::A) == opcode.has(Modifier::Row);
    // Rows of 16 bytes, as `ldmatrix` reads them; else a register at a time.
    let row_or = |bytes: u32| match space {
        Space::Shared => 16,
        _ => bytes,
    };
    match element_bits {
        // Columns of bytes are read byte by byte.
        8 if is_factor && !is_straight => 1,
        1 | 4 | 8 | 16 if is_factor => row_or(4),
        32 | 64 if is_factor => element_bits / 8,
        16 => 4,
        32 | 64 => {
            // Sums are made in pairs along rows. Of 8 rows the transposed
            // product is made, of integers from sm_80 on.
            let mut shapes = opcode.modifiers().iter().filter_map(|m| m.shape());
            let (rows, ..) = shapes.next().unwrap_or_default();
            let is_long = opcode.has(Modifier::M8n32k16);
            let is_pair = match rows {
                8 if is_long => opcode.has(Modifier::Col) && opcode.has(Modifier::F32),
                _ => opcode.has(Modifier::Row),
            };
            element_bits / 8 * if is_pair { 2 } else { 1 }
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use crate::table::classify;

    /// The alignments that the accesses of one instruction require.
    fn of(instruction: &str) -> Vec<u32> {
        let text = format!(
            ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n{instruction}\nret;\n}}\n"
        );
        let module = crate::parse(&text).unwrap();
        let function = module.functions().next().unwrap();
        let found = function
            .statements()
            .find_map(|(_, statement)| match statement {
                crate::Statement::Instruction(instruction) => {
                    let info = classify(instruction).unwrap();
                    let alignments = info.accesses.iter().map(|access| access.alignment);
                    Some(alignments.collect())
                }
                _ => None,
            });
        found.unwrap()
    }

    #[test]
    fn a_vector_is_aligned_as_a_whole() {
        assert_eq!(of("ld.global.u8 %r1, [%rd1];"), [1]);
        assert_eq!(of("ld.global.f32 %f1, [%rd1];"), [4]);
        assert_eq!(of("ld.global.v4.u8 {%r1, %r2, %r3, %r4}, [%rd1];"), [4]);
        assert_eq!(of("st.shared.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};"), [16]);
        assert_eq!(of("atom.global.cas.b128 %rd2, [%rd1], %rd3, %rd4;"), [16]);
        assert_eq!(
            of("st.global.v8.b32 [%rd1], {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8};"),
            [32]
        );
    }

    #[test]
    fn copies_ask_for_what_they_copy() {
        assert_eq!(of("cp.async.ca.shared.global [%r1], [%rd1], 4;"), [4, 4]);
        assert_eq!(of("cp.async.cg.shared.global [%r1], [%rd1], 16;"), [16, 16]);
        assert_eq!(
            of("cp.async.ca.shared.global [%r1], [%rd1], 8, %r2;"),
            [8, 8]
        );
        assert_eq!(
            of(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];"
            ),
            [16, 16, 8]
        );
    }

    #[test]
    fn a_vector_is_as_long_as_what_it_reads() {
        assert_eq!(of("ld.global.v4.b32 {%r1, %r2, %r3, _}, [%rd1];"), [16]);
        assert_eq!(of("ld.global.v4.b32 {%r1, %r2, _, _}, [%rd1];"), [8]);
    }

    #[test]
    fn rows_of_matrices_and_barriers() {
        assert_eq!(
            of("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];"),
            [16]
        );
        assert_eq!(
            of("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {%r1};"),
            [16]
        );
        assert_eq!(of("mbarrier.init.shared.b64 [%r1], 1;"), [8]);
        assert_eq!(
            of("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;"),
            [8]
        );
        assert_eq!(of("cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];"), [8]);
    }

    #[test]
    fn fragments_ask_for_what_ptxas_loads_at_once() {
        let load = |which: &str| of(&format!("wmma.load.{which} {{%r1}}, [%rd1], %r9;"))[0];
        // Rows of 16 bytes, by ldmatrix.
        assert_eq!(load("a.sync.aligned.row.m16n16k16.shared.f16"), 16);
        assert_eq!(load("b.sync.aligned.row.m16n16k16.shared::cta.bf16"), 16);
        assert_eq!(load("b.sync.aligned.col.m32n8k16.shared.s8"), 16);
        assert_eq!(load("a.sync.aligned.row.m8n8k128.shared.b1"), 16);
        // Registers.
        assert_eq!(load("a.sync.aligned.col.m16n16k16.global.f16"), 4);
        assert_eq!(load("a.sync.aligned.row.m16n16k16.f16"), 4);
        assert_eq!(load("a.sync.aligned.row.m16n16k16.global.u8"), 4);
        assert_eq!(load("a.sync.aligned.row.m16n16k8.shared.tf32"), 4);
        assert_eq!(load("b.sync.aligned.row.m8n8k4.shared.f64"), 8);
        // Bytes.
        assert_eq!(load("b.sync.aligned.row.m16n16k16.shared.s8"), 1);
        // Sums: pairs along rows.
        assert_eq!(load("c.sync.aligned.row.m16n16k16.global.f32"), 8);
        assert_eq!(load("c.sync.aligned.col.m16n16k16.global.f32"), 4);
        assert_eq!(load("c.sync.aligned.row.m8n32k16.global.f32"), 4);
        assert_eq!(load("c.sync.aligned.col.m8n32k16.global.f32"), 8);
        assert_eq!(load("c.sync.aligned.col.m8n32k16.global.s32"), 4);
        assert_eq!(load("c.sync.aligned.row.m8n8k4.global.f64"), 16);
        assert_eq!(load("c.sync.aligned.col.m16n16k16.global.f16"), 4);
        assert_eq!(
            of("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r1], {%f1}, 16;"),
            [8]
        );
    }

    #[test]
    fn bulk_operations() {
        let reduction =
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], %r2;";
        assert_eq!(of(reduction), [16, 16]);
        assert_eq!(of("st.bulk.weak.shared::cta [%r1], %rd2, 0;"), [1]);
        assert_eq!(
            of("multimem.cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;"),
            [16, 16]
        );
        assert_eq!(
            of(
                "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];"
            ),
            [16, 8]
        );
    }

    /// Each row that accesses memory has an example in the reviewed list, which
    /// gives the alignment that it requires.
    #[test]
    fn every_access_has_a_reviewed_alignment() {
        let reviewed = include_str!("../../tests/table.txt");
        let mut unseen: Vec<_> = super::super::rows::all()
            .filter(|(_, row)| !row.accesses.is_empty())
            .collect();
        for line in reviewed.lines() {
            let text = line.split("  // ").next().unwrap_or_default().trim_end();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let source = format!(".version 9.0\n.target sm_100a\n.entry k()\n{{\n{text}\n}}\n");
            let module = crate::parse(&source).unwrap();
            let instruction = module.functions().next().unwrap().instructions().next();
            let row = super::super::rules::find(&instruction.unwrap().opcode);
            unseen.retain(|other| !row.is_some_and(|row| std::ptr::eq(row, other.1)));
        }
        let names = unseen.iter().map(|(mnemonic, row)| (mnemonic, row.with));
        assert_eq!(names.collect::<Vec<_>>(), []);
    }
}
