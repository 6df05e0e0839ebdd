//! Addresses in the initializers of variables.
//!
//! The text must not hold them: what the driver would put there is where it
//! placed the variable itself, which lies outside of the partition. Each becomes
//! zero and a [`Relocation`], and the host writes the address in the partition
//! when it places the variables.

use super::FencedVariable;
use super::refuse::Refusals;
use crate::patch::put;
use ptx::{Module, Value, Variable, VariableSpace};
use rustc_hash::FxHashMap;

/// The variable that an address is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A variable in the partition, by its number among the placed ones.
    Placed(usize),
    /// A constant variable of the module, by name.
    Constant(String),
}

/// An address that the host writes into a variable once all are placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Where to.
    pub holder: Holder,
    /// Offset in it, bytes. With [`Relocation::bytes`] it is inside.
    pub offset: u64,
    /// How many bytes are written: 1, 2, 4 or 8, the lowest first.
    pub bytes: u32,
    /// Bits of the address that are left out below.
    pub shift: u32,
    /// The variable whose address it is, by its number among the placed ones.
    pub target: usize,
    /// Added to the address.
    pub addend: i64,
}

impl Relocation {
    /// What is written if the target was placed at this address.
    pub fn value(&self, target: u64) -> Vec<u8> {
        let value = target.wrapping_add_signed(self.addend) >> (self.shift & 63);
        let bytes = value.to_le_bytes();
        bytes.into_iter().take(self.bytes as usize).collect()
    }
}

/// The addresses of a module, and initializers without them: by the place where
/// an initializer begins.
#[derive(Debug, Default)]
pub(super) struct Relocated {
    pub list: Vec<Relocation>,
    pub texts: FxHashMap<u32, String>,
}

/// Takes the addresses out of all initializers. `variables` are those that are
/// placed.
pub(super) fn relocations(
    module: &Module<'_>,
    variables: &[FencedVariable],
    refusals: &mut Refusals<'_>,
) -> Relocated {
    let mut out = Relocated::default();
    for variable in module.variables() {
        let value = match variable.initial_value(module.source) {
            Ok(Some(value)) => value,
            Ok(None) => continue,
            Err(_) => {
                let reason = format!("the initializer of `{}` is not understood", variable.name);
                refusals.add(variable.span, reason);
                continue;
            }
        };
        if !names(&value) {
            continue;
        }
        match of_variable(variable, &value, variables) {
            Ok(list) => out.list.extend(list),
            Err(reason) => {
                refusals.add(variable.span, format!("`{}` {reason}", variable.name));
                continue;
            }
        }
        if let Some(span) = variable.initializer {
            let mut text = String::from(" ");
            written(&value, &mut text, &|_, out| {
                out.push('0');
                true
            });
            out.texts.insert(span.start, text);
        }
    }
    out
}

/// Whether a value holds an address.
fn names(value: &Value) -> bool {
    match value {
        Value::Symbol { .. } => true,
        Value::List(list) => list.iter().any(names),
        _ => false,
    }
}

/// The addresses of one variable, or why there can be none in it: a fragment
/// that follows its name.
fn of_variable(
    variable: &Variable<'_>,
    value: &Value,
    variables: &[FencedVariable],
) -> Result<Vec<Relocation>, String> {
    let placed = |name: &str| variables.iter().position(|variable| variable.name == name);
    let holder = match variable.space {
        VariableSpace::Global => placed(variable.name).map(Holder::Placed),
        VariableSpace::Const => Some(Holder::Constant(variable.name.to_owned())),
        _ => None,
    };
    let not_understood = || "is initialized with an address in a form that is not understood";
    let (Some(holder), Some(size)) = (holder, variable.size()) else {
        return Err(not_understood().to_owned());
    };
    let dimensions: Option<Vec<u64>> = variable.dimensions.iter().copied().collect();
    let dimensions = dimensions.filter(|_| variable.vector == 1);
    let element = variable.ty.bytes();
    let mut values = Vec::new();
    dimensions
        .and_then(|dimensions| lay_out(value, &dimensions, element, 0, &mut values))
        .ok_or_else(not_understood)?;
    let mut out = Vec::new();
    for (offset, value) in values {
        let Value::Symbol {
            name,
            offset: addend,
            mask,
            ..
        } = value
        else {
            continue;
        };
        let target = placed(name).ok_or_else(|| {
            format!("is initialized with the address of `{name}`, which is not in global memory")
        })?;
        let shift = shift(element, *mask).ok_or_else(not_understood)?;
        let end = offset.checked_add(u64::from(element));
        if end.is_none_or(|end| end > size) {
            return Err("has an initializer that is longer than the variable".to_owned());
        }
        out.push(Relocation {
            holder: holder.clone(),
            offset,
            bytes: element,
            shift,
            target,
            addend: *addend,
        });
    }
    Ok(out)
}

/// The scalars of a value and their offsets. `None` if a list is where a scalar
/// should be, or the reverse.
fn lay_out<'v>(
    value: &'v Value,
    dimensions: &[u64],
    element: u32,
    at: u64,
    out: &mut Vec<(u64, &'v Value)>,
) -> Option<()> {
    match (value, dimensions) {
        (Value::List(list), [_, inner @ ..]) => {
            let stride = inner
                .iter()
                .try_fold(u64::from(element), |size, next| size.checked_mul(*next))?;
            for (index, value) in list.iter().enumerate() {
                let at = at.checked_add(stride.checked_mul(index as u64)?)?;
                lay_out(value, inner, element, at, out)?;
            }
            Some(())
        }
        (Value::List(_), []) => None,
        (scalar, []) => {
            out.push((at, scalar));
            Some(())
        }
        (_, _) => None,
    }
}

/// The lowest bit of an address that an element holds: the whole address in 8
/// bytes, or as many of its bits as the mask has and the element can hold.
fn shift(element: u32, mask: Option<u64>) -> Option<u32> {
    let Some(mask) = mask else {
        return (element == 8).then_some(0);
    };
    let whole = match element {
        1 | 2 | 4 => (1u64 << (8 * element)) - 1,
        8 => u64::MAX,
        _ => return None,
    };
    let shift = mask.trailing_zeros();
    (mask != 0 && mask >> shift == whole).then_some(shift)
}

/// Appends the text of a value. `symbol` writes the addresses that it knows; the
/// others are written as they were.
pub(super) fn written(
    value: &Value,
    out: &mut String,
    symbol: &impl Fn(&Value, &mut String) -> bool,
) {
    match value {
        Value::Integer(number) => put(out, format_args!("{number}")),
        Value::F32(bits) => put(out, format_args!("0f{bits:08X}")),
        Value::F64(bits) => put(out, format_args!("0d{bits:016X}")),
        Value::Symbol {
            name,
            offset,
            is_generic,
            mask,
        } => {
            if symbol(value, out) {
                return;
            }
            let name = match is_generic {
                true => format!("generic({name})"),
                false => name.clone(),
            };
            let place = match offset {
                0 => name,
                offset => format!("{name}+{offset}"),
            };
            match mask {
                Some(mask) => put(out, format_args!("{mask:#x}({place})")),
                None => out.push_str(&place),
            }
        }
        Value::List(list) => {
            out.push('{');
            for (index, value) in list.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                written(value, out, symbol);
            }
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_choose_bytes_of_an_address() {
        assert_eq!(shift(8, None), Some(0));
        assert_eq!(shift(4, None), None, "half of an address");
        assert_eq!(shift(1, Some(0xff)), Some(0));
        assert_eq!(shift(1, Some(0xff << 56)), Some(56));
        assert_eq!(shift(4, Some(0xffff_ffff << 32)), Some(32));
        assert_eq!(shift(1, Some(0x1ff)), None, "more than the element holds");
        assert_eq!(shift(1, Some(0x7f)), None, "less than the element holds");
        assert_eq!(shift(1, Some(0)), None);
    }

    #[test]
    fn a_value_is_the_bytes_of_the_address() {
        let relocation = Relocation {
            holder: Holder::Placed(0),
            offset: 0,
            bytes: 2,
            shift: 8,
            target: 0,
            addend: -0x100,
        };
        assert_eq!(relocation.value(0x1234_5678), [0x55, 0x34]);
    }
}
