//! Variables in global memory, which the host places in the partition.

use super::FencedVariable;
use super::lower;
use super::refuse::Refusals;
use model::layout::fence as layout;
use ptx::{Linkage, Module, Type, VariableSpace};

/// Bytes that a module's constant variables may take together (PTX ISA, 5.1.3).
const CONSTANTS: u64 = 64 << 10;

/// The variables of a module, in the order of the text.
pub(super) fn variables(module: &Module<'_>, refusals: &mut Refusals<'_>) -> Vec<FencedVariable> {
    let mut out = Vec::new();
    for variable in module.variables() {
        match (variable.space, variable.linkage) {
            (VariableSpace::Global, Linkage::Local | Linkage::Visible) => {}
            (VariableSpace::Global, _) => {
                refusals.add(
                    variable.span,
                    format!("`{}` may be defined in another file", variable.name),
                );
                continue;
            }
            (VariableSpace::Tex, _) => {
                refusals.add(variable.span, "textures cannot be contained");
                continue;
            }
            _ => continue,
        }
        if matches!(variable.ty, Type::Texref | Type::Samplerref | Type::Surfref) {
            refusals.add(variable.span, "textures cannot be contained");
            continue;
        }
        match variable.size() {
            Some(size) if variable.ty.bytes() > 0 => out.push(FencedVariable {
                name: variable.name.to_owned(),
                size,
                alignment: variable.alignment().max(1),
                is_common: lower::is_common(variable.name),
            }),
            _ => refusals.add(variable.span, format!("`{}` has no size", variable.name)),
        }
    }
    let table = u64::from(layout::VARIABLES) + 8 * out.len() as u64;
    if constant_bytes(module).next_multiple_of(8) + table > CONSTANTS {
        let place = module
            .items
            .first()
            .map_or_else(Default::default, |item| match item {
                ptx::Item::Header(span) | ptx::Item::Other(span) => *span,
                ptx::Item::Variable(variable) => variable.span,
                ptx::Item::File(file) => file.span,
                ptx::Item::Function(function) => function.span,
            });
        refusals.add(
            place,
            format!("its constants leave no room for a table of {table} bytes"),
        );
    }
    out
}

/// The record of what is found, which the pass declares before all variables.
pub(super) fn found() -> FencedVariable {
    FencedVariable {
        name: layout::found::VARIABLE.to_owned(),
        size: layout::found::BYTES,
        alignment: 8,
        is_common: false,
    }
}

/// The bytes of all constant variables of a module.
fn constant_bytes(module: &Module<'_>) -> u64 {
    let constants = module
        .variables()
        .filter(|variable| variable.space == VariableSpace::Const);
    constants.fold(0, |bytes, variable| {
        let alignment = u64::from(variable.alignment().max(1));
        bytes.next_multiple_of(alignment) + variable.size().unwrap_or(0)
    })
}
