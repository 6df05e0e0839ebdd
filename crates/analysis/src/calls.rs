//! What calls pass and functions return, and which functions may be called by
//! code that does not name them.

use crate::code::{Reference, Referent, ValueId};
use crate::function::Analysis;
use crate::names::SymbolId;
use crate::roles::Role;
use ptx::{Instruction, Item, Mnemonic, Modifier, Module, OperandKind, Statement};
use rustc_hash::FxHashSet;

/// What one instruction stores of an argument or a result, in eight bytes.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The `st.param`.
    pub instruction: u32,
    /// Which element of the vector that it stores.
    pub element: u8,
    /// The value, if it is no constant.
    pub value: Option<ValueId>,
}

/// A part of what one instruction stores.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Bytes from the start of the symbol.
    pub offset: i64,
    /// Its bytes.
    pub bytes: u32,
    /// What, if it is eight bytes that may be a pointer.
    pub stored: Option<Stored>,
}

/// What an unguarded `st.param` in the block of `index` stores, and to which
/// symbol.
pub fn stores(
    analysis: &Analysis<'_, '_>,
    at: usize,
    index: usize,
) -> Option<(SymbolId, Vec<Piece>)> {
    let code = &analysis.code;
    let instruction = code.instructions[at].instruction;
    if analysis.cfg.block_of[at] != analysis.cfg.block_of[index]
        || instruction.opcode.mnemonic() != Mnemonic::St
        || !is_of_parameters(instruction)
        || instruction.guard.is_some()
    {
        return None;
    }
    let references = code.references_of(at);
    let (symbol, offset) = references.iter().find_map(|r| match r.referent {
        Referent::Symbol(symbol, offset) if r.role == Role::Address => Some((symbol, offset)),
        _ => None,
    })?;
    let bytes = instruction.opcode.types().last()?.bytes();
    let value = instruction.operands.get(1)?;
    let elements: Vec<&OperandKind<'_>> = match &value.kind {
        OperandKind::Vector(elements) => elements.iter().map(|element| &element.kind).collect(),
        kind => vec![kind],
    };
    let pieces = elements.iter().enumerate().map(|(place, kind)| {
        let element = u8::try_from(place).unwrap_or(u8::MAX);
        let register = references.iter().find(|r| {
            r.operand == 1 && r.element == element && matches!(r.referent, Referent::Wide(_))
        });
        let is_followed = register.is_some() || matches!(kind, OperandKind::Integer(_));
        Piece {
            offset: offset.saturating_add(place as i64 * i64::from(bytes)),
            bytes,
            stored: (is_followed && bytes == 8).then_some(Stored {
                instruction: at as u32,
                element,
                value: register.map(|register| register.value),
            }),
        }
    });
    Some((symbol, pieces.collect()))
}

/// A store of eight bytes to what a function returns.
#[derive(Clone, Copy, Debug)]
pub struct Return {
    /// Bytes from the start of the result.
    pub offset: u32,
    /// The store.
    pub stored: Stored,
}

/// The pointers that a function may return: at each place, nothing but eight
/// bytes in one piece is ever stored.
pub fn returns(analysis: &Analysis<'_, '_>) -> Vec<Return> {
    let code = &analysis.code;
    let [returned] = &code.function.returns[..] else {
        return Vec::new();
    };
    // Declared before anything else of that name.
    let Some(symbol) = code.symbols.iter().position(|s| s.name == returned.name) else {
        return Vec::new();
    };
    let mut all: Vec<Piece> = Vec::new();
    for at in 0..code.instructions.len() {
        let mentions =
            |r: &Reference| matches!(r.referent, Referent::Symbol(s, _) if s.0 as usize == symbol);
        if !code.references_of(at).iter().any(mentions) {
            continue;
        }
        match stores(analysis, at, at) {
            Some((of, pieces)) if of.0 as usize == symbol => all.extend(pieces),
            _ => return Vec::new(),
        }
    }
    let is_whole = |offset: i64| {
        all.iter().all(|piece| {
            let apart = piece.offset >= offset.saturating_add(8)
                || piece.offset.saturating_add(i64::from(piece.bytes)) <= offset;
            apart || (piece.offset == offset && piece.stored.is_some())
        })
    };
    let size = returned.size().unwrap_or(0);
    all.iter()
        .filter_map(|piece| {
            let (offset, stored) = (u32::try_from(piece.offset).ok()?, piece.stored?);
            (is_whole(piece.offset) && u64::from(offset) + 8 <= size)
                .then_some(Return { offset, stored })
        })
        .collect()
}

/// Names that a module mentions other than to declare or call them. They
/// include all functions whose address is taken.
pub fn mentioned<'a>(module: &Module<'a>) -> FxHashSet<&'a str> {
    let is_word = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '$');
    let mut found = FxHashSet::default();
    for function in module.functions() {
        for (_, statement) in function.statements() {
            match statement {
                Statement::Instruction(instruction) => {
                    let called = instruction.called_function().map(|(place, _)| place);
                    for (place, operand) in instruction.operands.iter().enumerate() {
                        if Some(place) != called {
                            operand.names(&mut |name| {
                                if !name.starts_with('%') {
                                    found.insert(name);
                                }
                            });
                        }
                    }
                }
                Statement::Targets(targets) => found.extend(targets.names.iter().copied()),
                _ => {}
            }
        }
    }
    for item in &module.items {
        let text = match item {
            Item::Variable(variable) => variable.span.text(module.source),
            Item::Other(span) => span.text(module.source),
            _ => continue,
        };
        let text = match item {
            Item::Variable(_) => text.split_once('=').map_or("", |(_, value)| value),
            // Debug information refers to functions by labels.
            _ if text.starts_with(".alias") => text,
            _ => continue,
        };
        let words = text.split(is_word);
        found.extend(words.filter(|word| !word.starts_with(|c: char| c.is_ascii_digit())));
    }
    found
}

fn is_of_parameters(instruction: &Instruction<'_>) -> bool {
    let spaces = [Modifier::Param, Modifier::ParamFunc];
    instruction.opcode.has_any(&spaces)
}
