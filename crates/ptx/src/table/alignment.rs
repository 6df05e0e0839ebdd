//! The alignment that instructions ask of the addresses they access.

use super::{Access, Width};
use crate::{Instruction, OperandKind};

impl Access {
    /// Bytes that the address must be a multiple of: a power of two, 1 if it
    /// need not be aligned. A vector is aligned as a whole (PTX ISA, 6.4.1);
    /// `cp.async` asks for the size of the copy, bulk copies and the rows of
    /// `ldmatrix` and `stmatrix` for 16 bytes, a barrier for 8. What hardware
    /// was never seen to refuse is not asked for: of `wmma`, no more than the
    /// alignment of an element.
    pub fn alignment(&self, instruction: &Instruction<'_>) -> u32 {
        let opcode = &instruction.opcode;
        let copied = |operand: usize| match instruction.operands.get(operand).map(|o| &o.kind) {
            Some(OperandKind::Integer(bytes)) => u32::try_from(*bytes).unwrap_or(1),
            _ => 1,
        };
        let bytes = match (opcode.base(), self.width) {
            (
                "ld" | "ldu" | "st" | "atom" | "red" | "mbarrier" | "cp" | "ldmatrix" | "stmatrix",
                Width::Bytes(bytes),
            ) => bytes,
            ("cp", Width::Operand(_)) if opcode.has("bulk") => 16,
            ("cp", Width::Operand(size) | Width::CopySource { size, .. }) => copied(size),
            ("wmma", Width::Matrix { element_bits, .. }) => element_bits / 8,
            _ => 1,
        };
        if bytes.is_power_of_two() { bytes } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use crate::table::classify;

    /// The alignments that the accesses of one instruction ask for.
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
                    let alignments = info
                        .accesses
                        .iter()
                        .map(|access| access.alignment(instruction));
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
    fn rows_of_matrices_and_barriers() {
        assert_eq!(
            of("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];"),
            [16]
        );
        assert_eq!(of("mbarrier.init.shared.b64 [%r1], 1;"), [8]);
        assert_eq!(
            of(
                "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1], %r9;"
            ),
            [2]
        );
    }
}
