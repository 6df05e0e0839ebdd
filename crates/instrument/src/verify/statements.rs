//! Matches the statements of an instrumented body with those of its source.

use super::Errors;
use super::again::Mark;
use super::calls::is_call_of_copy;
use super::facts::heap_call;
use super::through::is_call_through;
use crate::ahead::label;
use crate::protocol::{
    FREE, HEAP_LAUNCH, HEAP_PLACE, LABEL_PREFIX, MALLOC, NAME_PREFIX, REGISTER_PREFIX, RESULT,
};
use model::layout::LAUNCH_PARAMETER;
use ptx::{Block, Function, Instruction, Mnemonic, Modifier, OperandKind, Span, Statement};
use std::iter::Peekable;
use std::slice::Iter;

/// A statement or the edge of a scope, in text order.
#[derive(Clone, Copy)]
pub(super) enum Piece<'m, 'a> {
    Statement(&'m Statement<'a>),
    Open(Span),
    Close(Span),
}

impl Piece<'_, '_> {
    pub(super) fn span(&self) -> Span {
        match self {
            Piece::Open(span) | Piece::Close(span) => *span,
            Piece::Statement(statement) => match statement {
                Statement::Label(label) => label.span,
                Statement::Instruction(instruction) => instruction.span,
                Statement::Variable(variable) => variable.span,
                Statement::Block(block) => block.span,
                Statement::Loc(loc) => loc.span,
                Statement::Targets(targets) => targets.span,
                Statement::CallPrototype(prototype) => prototype.span,
                Statement::Pragma(span) | Statement::Other(span) => *span,
            },
        }
    }
}

pub(super) fn flatten<'m, 'a>(function: &'m Function<'a>) -> Vec<Piece<'m, 'a>> {
    fn walk<'m, 'a>(block: &'m Block<'a>, out: &mut Vec<Piece<'m, 'a>>) {
        for statement in &block.statements {
            if let Statement::Block(inner) = statement {
                let (start, end) = (inner.span.start, inner.span.end);
                out.push(Piece::Open(Span {
                    start,
                    end: start + 1,
                }));
                walk(inner, out);
                out.push(Piece::Close(Span {
                    start: end - 1,
                    end,
                }));
            } else {
                out.push(Piece::Statement(statement));
            }
        }
    }
    let mut out = Vec::new();
    if let Some(body) = &function.body {
        walk(body, &mut out);
    }
    out
}

/// One statement of the instrumented body.
pub(super) enum Matched<'m, 'a> {
    /// The program's, unchanged; with the source's piece.
    Same(Piece<'m, 'a>, Piece<'m, 'a>),
    /// The program's, with addresses redirected: source's, new.
    Redirected(&'m Instruction<'a>, &'m Instruction<'a>),
    /// Check code.
    Added(Piece<'m, 'a>),
    /// From here on, the program's statements are those of the quick copy of the loop
    /// that begins with this instruction; with the label's place.
    Copy(usize, Span),
    /// The quick copy ends.
    CopyEnds(Span),
    /// Code begins that is written twice, and its second copy.
    First(Mark, Span),
    Second(Mark, Span),
}

/// Whether a text names something that only checks use.
pub(super) fn is_reserved(text: &str) -> bool {
    text.contains(REGISTER_PREFIX) || text.contains(LABEL_PREFIX) || text.contains(NAME_PREFIX)
}

pub(super) fn matched<'m, 'a>(
    from: &[Piece<'m, 'a>],
    to: &[Piece<'m, 'a>],
    old: &str,
    new: &str,
    errors: &mut Errors<'_>,
) -> Vec<Matched<'m, 'a>> {
    let mut out = Vec::with_capacity(to.len());
    let mut expected = from.iter().peekable();
    let mut copy = None;
    let mut twice = None;
    let mut added_scopes = 0u32;
    let mut at = 0;
    while let Some(&piece) = to.get(at) {
        at += 1;
        let text = piece.span().text(new);
        // Check code opens scopes of its own only for the parameters of calls
        // of its own functions, which count them; the program's may begin with
        // check code, too.
        let next = to.get(at).map_or("", |next| next.span().text(new));
        let begins_call = next.starts_with(".param") && next.contains(" __ringfence_0");
        if matches!(piece, Piece::Open(_)) && begins_call {
            added_scopes += 1;
            out.push(Matched::Added(piece));
            continue;
        }
        if matches!(piece, Piece::Close(_)) && added_scopes > 0 {
            added_scopes -= 1;
            out.push(Matched::Added(piece));
            continue;
        }
        if !is_reserved(text) {
            match expected.peek().copied() {
                Some(old_piece) if old_piece.span().text(old) == text => {
                    expected.next();
                    out.push(Matched::Same(*old_piece, piece));
                }
                Some(_) if sets_zero(piece) => out.push(Matched::Added(piece)),
                Some(_) => {
                    errors.at(piece.span(), "a statement differs from the source's");
                    return out;
                }
                None if matches!(text, "ret;" | "exit;") => out.push(Matched::Added(piece)),
                None => {
                    errors.at(piece.span(), "a statement that the source does not have");
                    return out;
                }
            }
            continue;
        }
        if let Some(label) = written_twice(piece, text, &mut expected, &mut twice) {
            out.push(label);
            continue;
        }
        if let Some(first) = copy_of(text).filter(|_| copy.is_none()) {
            copy = Some((first, expected.clone()));
            begin_copy(&mut expected);
            out.push(Matched::Copy(first, piece.span()));
            continue;
        }
        if let Some((first, loop_itself)) = &copy {
            if text == format!("bra {};", label("out", *first)) {
                expected = loop_itself.clone();
                copy = None;
                out.push(Matched::CopyEnds(piece.span()));
                continue;
            }
            if let Some(&old_piece) = expected.peek()
                && is_renamed(*old_piece, piece, *first)
            {
                expected.next();
                out.push(match (old_piece, piece) {
                    (
                        Piece::Statement(Statement::Instruction(old_one)),
                        Piece::Statement(Statement::Instruction(new_one)),
                    ) => Matched::Redirected(old_one, new_one),
                    _ => Matched::Same(*old_piece, piece),
                });
                continue;
            }
        }
        if let (
            Piece::Statement(Statement::Instruction(new_one)),
            Some(Piece::Statement(Statement::Instruction(old_one))),
        ) = (piece, expected.peek())
            && is_redirection(old_one, new_one)
        {
            expected.next();
            out.push(Matched::Redirected(old_one, new_one));
            continue;
        }
        out.push(Matched::Added(piece));
    }
    if let Some(missing) = expected.next() {
        let place = to.last().map_or(Span { start: 0, end: 0 }, Piece::span);
        errors.at(
            place,
            format!("missing after this: `{}`", missing.span().text(old)),
        );
    }
    out
}

/// A label of code that is written twice, and where that began.
type Twice<'p, 'm, 'a> = Option<(Mark, Peekable<Iter<'p, Piece<'m, 'a>>>)>;

/// Follows the labels at the beginnings of both copies of such code.
fn written_twice<'p, 'm, 'a>(
    piece: Piece<'m, 'a>,
    text: &str,
    expected: &mut Peekable<Iter<'p, Piece<'m, 'a>>>,
    twice: &mut Twice<'p, 'm, 'a>,
) -> Option<Matched<'m, 'a>> {
    let label = text.strip_suffix(':')?;
    match twice {
        None => {
            let mark = Mark::of(label, "try")?;
            *twice = Some((mark, expected.clone()));
            Some(Matched::First(mark, piece.span()))
        }
        Some((mark, code)) => {
            let mark = Mark::of(label, "again").filter(|again| again == mark)?;
            expected.clone_from(code);
            *twice = None;
            Some(Matched::Second(mark, piece.span()))
        }
    }
}

/// The first instruction of the loop whose quick copy a label begins.
fn copy_of(text: &str) -> Option<usize> {
    let name = text.strip_suffix(':')?;
    let first = name.strip_prefix(&*format!("{LABEL_PREFIX}quick"))?;
    first.parse().ok()
}

/// Goes on behind the last label before the next instruction: that of the loop.
fn begin_copy<'p, 'm: 'p, 'a: 'm>(expected: &mut Peekable<Iter<'p, Piece<'m, 'a>>>) {
    let ahead = expected.clone();
    let ahead =
        ahead.take_while(|piece| !matches!(piece, Piece::Statement(Statement::Instruction(_))));
    let mut behind = 0;
    for (place, piece) in ahead.enumerate() {
        if matches!(piece, Piece::Statement(Statement::Label(_))) {
            behind = place + 1;
        }
    }
    for _ in 0..behind {
        expected.next();
    }
}

/// Whether a label, or a branch to one, is that of the source by its name in the quick
/// copy. (`ahead` verifies where the branch goes.)
fn is_renamed(old: Piece<'_, '_>, new: Piece<'_, '_>, first: usize) -> bool {
    let is = |old: &str, new: &str| {
        let begin = label("quick", first);
        let rest = new.strip_prefix(&*begin);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('_') == Some(old.trim_start_matches('$'))
        })
    };
    match (old, new) {
        (Piece::Statement(Statement::Label(old)), Piece::Statement(Statement::Label(new))) => {
            is(old.name, new.name) && new.name != label("quick", first)
        }
        (
            Piece::Statement(Statement::Instruction(old)),
            Piece::Statement(Statement::Instruction(new)),
        ) => {
            let target = |instruction: &Instruction<'_>| match &instruction.operands[..] {
                [target] => match target.kind {
                    OperandKind::Name(name) => Some(name.to_owned()),
                    _ => None,
                },
                _ => None,
            };
            let same_guards = match (&old.guard, &new.guard) {
                (None, None) => true,
                (Some(a), Some(b)) => (a.negated, a.register) == (b.negated, b.register),
                _ => false,
            };
            old.opcode.mnemonic() == Mnemonic::Bra
                && old.opcode.text == new.opcode.text
                && same_guards
                && target(old)
                    .zip(target(new))
                    .is_some_and(|(old, new)| is(&old, &new))
        }
        _ => false,
    }
}

/// Whether a piece sets a register to zero: the result of the program's next
/// instruction, where that is skipped. `predicated_off` verifies which.
fn sets_zero(piece: Piece<'_, '_>) -> bool {
    let Piece::Statement(Statement::Instruction(instruction)) = piece else {
        return false;
    };
    instruction.guard.is_none()
        && instruction.opcode.mnemonic() == Mnemonic::Mov
        && matches!(
            &instruction.operands[..],
            [to, what] if matches!(to.kind, OperandKind::Name(_))
                && what.kind == OperandKind::Integer(0)
        )
}

/// Whether two instructions agree but for the bases of addresses and a verdict
/// in the place of the guard.
fn is_redirection(old: &Instruction<'_>, new: &Instruction<'_>) -> bool {
    let guards = match (&old.guard, &new.guard) {
        (None, None) => true,
        (Some(a), Some(b)) if a.negated == b.negated && a.register == b.register => true,
        // Skipped by a verdict; `checks` verifies which.
        (_, Some(b)) => b.register.starts_with(REGISTER_PREFIX),
        _ => false,
    };
    if guards && is_heap_call(old, new) || is_call_of_copy(old, new) || is_call_through(old, new) {
        return true;
    }
    // The result of a call may be in another parameter; `calls` verifies which.
    let loads_result = old.opcode.mnemonic() == Mnemonic::Ld && old.opcode.has(Modifier::Param);
    guards
        && old.opcode.text == new.opcode.text
        && old.operands.len() == new.operands.len()
        && old
            .operands
            .iter()
            .zip(&new.operands)
            .all(|(a, b)| match (&a.kind, &b.kind) {
                (OperandKind::Address(a), OperandKind::Address(b)) => {
                    let base = a.base == b.base
                        || b.base.is_some_and(|base| {
                            base.starts_with(REGISTER_PREFIX)
                                || loads_result && base.starts_with(RESULT)
                        });
                    base && a.offset == b.offset && same_all(&a.coordinates, &b.coordinates)
                }
                (a, b) => same(a, b),
            })
}

/// Whether a call of `malloc` or `free` goes to the device heap instead, with
/// the site of the call and the launch as further arguments.
pub(super) fn is_heap_call(old: &Instruction<'_>, new: &Instruction<'_>) -> bool {
    let Some(allocates) = heap_call(old) else {
        return false;
    };
    let callee = if allocates { MALLOC } else { FREE };
    old.opcode.text == new.opcode.text
        && old.operands.len() == new.operands.len()
        && old
            .operands
            .iter()
            .zip(&new.operands)
            .enumerate()
            .all(|(place, (a, b))| match (&a.kind, &b.kind) {
                (OperandKind::Name(_), OperandKind::Name(name)) => *name == callee,
                (OperandKind::List(a), OperandKind::List(b)) if place + 1 == old.operands.len() => {
                    b.len() == a.len() + 2
                        && same_all(a, &b[..a.len()])
                        && b[a.len()..].iter().zip([HEAP_PLACE, HEAP_LAUNCH]).all(
                            |(operand, prefix)| {
                                matches!(operand.kind, OperandKind::Name(name) if name.starts_with(prefix))
                            },
                        )
                }
                (a, b) => same(a, b),
            })
}

/// Whether two bodies agree but for calls that go to the device heap.
pub(super) fn differs_in_heap_calls_only(matched: &[Matched<'_, '_>]) -> bool {
    matched.iter().all(|piece| match piece {
        Matched::Same(..) => true,
        Matched::Redirected(old, new) => is_heap_call(old, new),
        Matched::Added(Piece::Statement(Statement::Variable(variable))) => {
            variable.space == ptx::VariableSpace::Param
        }
        Matched::Added(Piece::Statement(Statement::Instruction(instruction))) => {
            instruction.opcode.mnemonic() == Mnemonic::St
                && instruction.opcode.has(Modifier::Param)
                && instruction.guard.is_none()
                && matches!(
                    &instruction.operands[..],
                    [to, what] if matches!(&to.kind, OperandKind::Address(a) if a.base.is_some_and(is_reserved))
                        && matches!(what.kind, OperandKind::Integer(_))
                )
        }
        Matched::Added(_)
        | Matched::Copy(..)
        | Matched::CopyEnds(_)
        | Matched::First(..)
        | Matched::Second(..) => false,
    })
}

/// Where a piece does more than redirect a call of `malloc` or `free`, or hand
/// the launch on to a copy that does.
pub(super) fn beyond_heap_calls(piece: &Matched<'_, '_>) -> Option<Span> {
    let is_own = |operand: &ptx::Operand<'_>| match &operand.kind {
        OperandKind::Name(name) => name.starts_with(REGISTER_PREFIX),
        OperandKind::Integer(_) => true,
        _ => false,
    };
    let at = |operand: &ptx::Operand<'_>, is: &dyn Fn(&str) -> bool| match &operand.kind {
        OperandKind::Address(address) => address.base.is_some_and(is),
        _ => false,
    };
    let (fine, span) = match piece {
        Matched::Same(..) => return None,
        Matched::Copy(_, span)
        | Matched::CopyEnds(span)
        | Matched::First(_, span)
        | Matched::Second(_, span) => return Some(*span),
        Matched::Redirected(old, new) => (
            is_heap_call(old, new) || is_call_of_copy(old, new),
            new.span,
        ),
        Matched::Added(piece) => {
            let fine = match piece {
                Piece::Statement(Statement::Variable(_)) => true,
                Piece::Statement(Statement::Instruction(added)) => {
                    let param = added.opcode.has(Modifier::Param);
                    added.guard.is_none()
                        && match (added.opcode.mnemonic(), &added.operands[..]) {
                            (Mnemonic::Mov, [to, what]) => is_own(to) && is_own(what),
                            (Mnemonic::Ld, [to, from]) => {
                                param && is_own(to) && at(from, &|base| base == LAUNCH_PARAMETER)
                            }
                            (Mnemonic::St, [to, what]) => {
                                param && at(to, &is_reserved) && is_own(what)
                            }
                            _ => false,
                        }
                }
                _ => false,
            };
            (fine, piece.span())
        }
    };
    (!fine).then_some(span)
}

fn same_all(a: &[ptx::Operand<'_>], b: &[ptx::Operand<'_>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(&a.kind, &b.kind))
}

/// Equality but for places.
fn same(a: &OperandKind<'_>, b: &OperandKind<'_>) -> bool {
    match (a, b) {
        (OperandKind::Vector(a), OperandKind::Vector(b))
        | (OperandKind::List(a), OperandKind::List(b)) => same_all(a, b),
        (OperandKind::Address(a), OperandKind::Address(b)) => {
            a.base == b.base && a.offset == b.offset && same_all(&a.coordinates, &b.coordinates)
        }
        (a, b) => a == b,
    }
}
