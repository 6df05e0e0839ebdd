//! Verifies calls through pointers: the address is returned by the class's own
//! function, which maps addresses of functions to their copies. All copies of a
//! class have the same bounds ABI, and the call passes exactly that.

use super::Errors;
use super::calls::{Callees, HEADER, list};
use super::checks::{Input, State, Text, name};
use super::written::{number, reads, word};
use crate::protocol::family::CALLEE;
use crate::protocol::{CALLED, NAME_PREFIX, PASSED, PROTOTYPE, RESULT, TARGET, THUNK};
use crate::support::{Dispatch, prototype};
use analysis::Signature;
use ptx::{Function, Instruction, Mnemonic, Module, OperandKind, Statement};
use rustc_hash::FxHashMap;

/// The bounds ABI of the copies of a class.
pub(super) struct Class {
    /// Its functions.
    names: Vec<Text>,
    signature: Signature,
    takes: u64,
    returned: Option<u64>,
}

/// Whether a function is one of a class's own.
pub(super) fn is_of_class(function: &Function<'_>) -> bool {
    function.name.starts_with(TARGET) || function.name.starts_with(THUNK)
}

/// Reads the classes of an instrumented module from its text; their functions
/// must be written for the copies that they name.
pub(super) fn classes(
    old: &Module<'_>,
    new: &Module<'_>,
    callees: &Callees<'_>,
    errors: &mut Errors<'_>,
) -> FxHashMap<u32, Class> {
    let mut classes = FxHashMap::default();
    for function in new.functions().filter(|f| f.body.is_some()) {
        let number = function.name.strip_prefix(TARGET);
        let Some(number) = number.and_then(|number| number.parse().ok()) else {
            continue;
        };
        match class(old, new, callees, (number, function)) {
            Ok(class) => drop(classes.insert(number, class)),
            Err(message) => errors.at(function.span, message),
        }
    }
    for function in new.functions().filter(|f| is_of_class(f)) {
        let number = function.name.strip_prefix(TARGET);
        let number = number.or_else(|| function.name.strip_prefix(THUNK));
        let number = number.and_then(|number| number.parse().ok());
        if !number.is_some_and(|number: u32| classes.contains_key(&number)) {
            errors.at(function.span, "a function of no class");
        } else if function.body.is_none() && !super::calls::is_declared_as_defined(new, function) {
            errors.at(function.span, "declared otherwise than defined");
        }
    }
    classes
}

fn class(
    old: &Module<'_>,
    new: &Module<'_>,
    callees: &Callees<'_>,
    (number, target): (u32, &Function<'_>),
) -> Result<Class, String> {
    // The functions that it compares the address with.
    let mut names = Vec::new();
    for (_, statement) in target.statements() {
        if let Statement::Instruction(instruction) = statement
            && instruction.opcode.mnemonic() == Mnemonic::Mov
            && let Some(name) = name(instruction, 1)
            && !name.starts_with(NAME_PREFIX)
        {
            names.push(name);
        }
    }
    let mut class: Option<Class> = None;
    for &name in &names {
        let original = old
            .functions()
            .find(|f| f.name == name && f.body.is_some() && !f.is_entry)
            .ok_or_else(|| format!("no function `{name}` to be called"))?;
        let (takes, returned) = callees
            .copy(name)
            .ok_or_else(|| format!("`{name}` has no checked copy"))?;
        let signature = Signature::of(original)
            .ok_or_else(|| format!("`{name}` cannot be called through a pointer"))?;
        let is_alike = class.as_ref().is_none_or(|class| {
            class.signature == signature && class.takes == takes && class.returned == returned
        });
        if !is_alike
            || !takes
                .wrapping_sub(HEADER)
                .wrapping_sub(8)
                .is_multiple_of(16)
        {
            return Err(format!(
                "`{name}` takes or returns other bounds than its class"
            ));
        }
        class = Some(Class {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            signature,
            takes,
            returned,
        });
    }
    let class = class.ok_or("no function can be called through a pointer")?;
    let thunk = new
        .functions()
        .find(|f| f.body.is_some() && f.name.strip_prefix(THUNK) == Some(&number.to_string()))
        .ok_or("there is no thunk")?;
    let dispatch = Dispatch {
        number,
        signature: class.signature.clone(),
        names,
        takes: class.takes as u32,
        returned: (
            returned_pairs(thunk, &class.signature),
            class.returned.unwrap_or(0) as u32,
        ),
    };
    let mut expected = String::new();
    dispatch.define(&mut expected);
    let is_written = |f: &Function<'_>| expected.contains(f.span.text(new.source));
    if !is_written(target) || !is_written(thunk) {
        return Err(format!(
            "`{TARGET}{number}` or `{THUNK}{number}` is not what calls expect"
        ));
    }
    let places = dispatch.returned.0.len() as u64;
    let from = |returned: u64| returned - places * 16;
    match class.returned {
        None if places == 0 => {}
        Some(returned) if from(returned) == class.signature.result_bytes().next_multiple_of(8) => {}
        _ => {
            return Err(format!(
                "`{THUNK}{number}` does not return what copies return"
            ));
        }
    }
    Ok(class)
}

/// Offsets in the result that a thunk looks up, and of their bounds.
fn returned_pairs(thunk: &Function<'_>, signature: &Signature) -> Vec<(u32, u32)> {
    let mut returned = Vec::new();
    let mut looked_up = 0;
    for (_, statement) in thunk.statements() {
        let Statement::Instruction(instruction) = statement else {
            continue;
        };
        let Some(OperandKind::Address(address)) = instruction.operands.first().map(|o| &o.kind)
        else {
            continue;
        };
        let number = |register: &str| register.strip_prefix("%__rf_v")?.parse().ok();
        match (address.base, name(instruction, 1)) {
            (Some("__ringfence_0"), Some(register)) => {
                let offset = number(register).and_then(|n| signature.piece_of_result(n));
                looked_up = offset.unwrap_or(u32::MAX);
            }
            (Some("__ringfence_result"), Some("%__rf_wb")) => {
                returned.push((looked_up, u32::try_from(address.offset).unwrap_or(u32::MAX)));
            }
            _ => {}
        }
    }
    returned
}

/// Whether a call through a pointer goes to a copy instead, with the program's
/// arguments and one more; `State::call_through` verifies which.
pub(super) fn is_call_through(old: &Instruction<'_>, new: &Instruction<'_>) -> bool {
    let (Some((place, _)), Some((to_place, prototype))) =
        (old.called_pointer(), new.called_pointer())
    else {
        return false;
    };
    let guards = match (&old.guard, &new.guard) {
        (None, None) => true,
        (Some(a), Some(b)) => a.negated == b.negated && a.register == b.register,
        _ => false,
    };
    let (from, to) = (list(old, place + 1), list(new, place + 1));
    let results = match place {
        0 => true,
        1 => {
            let (a, b) = (list(old, 0), list(new, 0));
            a.len() == 1 && b.len() == 1 && (a[0] == b[0] || b[0].starts_with(RESULT))
        }
        _ => false,
    };
    guards
        && results
        && place == to_place
        && old.opcode.text == new.opcode.text
        && name(new, place).is_some_and(|name| name.starts_with("%__rf_f"))
        && prototype.starts_with(PROTOTYPE)
        && old.operands.len() <= place + 3
        && new.operands.len() == place + 3
        && to.len() == from.len() + 1
        && to[..from.len()] == from[..]
        && to[from.len()].starts_with(PASSED)
}

/// What is known of calls through pointers.
#[derive(Default)]
pub(super) struct Through {
    /// Registers that hold what a class has for an address: its number, and
    /// the register that the address is in.
    targets: FxHashMap<Text, (u32, Text)>,
    /// Text of the prototypes that check code declares.
    prototypes: FxHashMap<Text, Text>,
}

impl Through {
    /// The end of a block.
    pub(super) fn end(&mut self) {
        self.targets.clear();
    }

    /// The program writes these registers.
    pub(super) fn written(&mut self, registers: &[Text]) {
        self.targets
            .retain(|_, (_, from)| !registers.contains(from));
    }

    pub(super) fn prototype(&mut self, label: &str, text: &str) {
        self.prototypes.insert(label.to_owned(), words(text));
    }
}

impl State {
    /// Reads what maps the address of a function to that of its copy; where
    /// that ends.
    pub(super) fn target_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let [zero, one] = [0, 1].map(|n| format!("{NAME_PREFIX}{n}"));
        let head = format!("{{ .param .b64 {zero}, {one}; st.param.b64 [{zero}],");
        let after = reads(input.new, at, &head)?;
        let pointer = word(input.new, after).trim_end_matches(';');
        let after = reads(input.new, after, format_args!("{pointer}; call ({one}),"))?;
        let function = word(input.new, after).trim_end_matches(',');
        let class: u32 = number(function, TARGET)?;
        input.callees.classes.get(&class)?;
        let after = reads(
            input.new,
            after,
            format_args!("{function}, ({zero}); ld.param.b64"),
        )?;
        let into = word(input.new, after).trim_end_matches(',');
        number(into, CALLEE)?;
        let end = reads(input.new, after, format_args!("{into}, [{one}]; }}"))?;
        let target = (class, self.resolve(pointer));
        self.through.targets.insert(into.to_owned(), target);
        Some(end)
    }
}

impl State {
    /// Follows a call through a pointer, as it was and as it is.
    pub(super) fn call_through(
        &mut self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let Some((place, _)) = old.called_pointer() else {
            return;
        };
        let result = (place == 1)
            .then(|| list(old, 0).first().copied())
            .flatten();
        if let Some(result) = result {
            self.calls.renamed.remove(result);
        }
        if !is_call_through(old, new) {
            return;
        }
        let target = name(new, place).and_then(|name| self.through.targets.get(name));
        let called = self.text(old, place);
        let class = match target {
            Some((class, from)) if *from == called => input.callees.classes.get(class),
            _ => None,
        };
        let Some(class) = class else {
            return errors.at(new.span, "the address is not that of a copy or thunk");
        };
        let index = input.index.get(&old.span.start).copied();
        let signature = index.and_then(|index| {
            let listed = |name: &str| input.callees.signature(name);
            Signature::of_call(input.analysis, index, &listed)
        });
        if signature.as_ref() != Some(&class.signature) {
            errors.at(new.span, "functions of this class take other parameters");
        }
        let label = new.operands.last().and_then(|operand| match operand.kind {
            OperandKind::Name(label) => Some(label),
            _ => None,
        });
        let number = label.and_then(|label| label.strip_prefix(PROTOTYPE)?.parse().ok());
        let mut expected = String::new();
        prototype(
            &class.signature,
            class.takes as u32,
            class.returned.unwrap_or(0) as u32,
            number.unwrap_or(0),
            &mut expected,
        );
        let declared = label.and_then(|label| self.through.prototypes.get(label));
        if declared != Some(&words(&expected)) {
            errors.at(new.span, "the prototype is not that of the copies");
        }
        let takes = (class.takes, class.takes - u64::from(CALLED));
        let functions = class.names.clone();
        let passed = list(new, place + 1)
            .last()
            .copied()
            .unwrap_or("")
            .to_owned();
        let returned = class.returned;
        if self.passes((&passed, takes), (old, new), &functions, input, errors) != Some(called) {
            errors.at(
                new.span,
                "the thunk does not learn which function is called",
            );
        }
        self.results(result, (new, place), (returned, functions), errors);
    }
}

fn words(text: &str) -> Text {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}
