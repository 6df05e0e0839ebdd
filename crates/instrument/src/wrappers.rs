//! This pass puts the functions that wrap single instructions where they are
//! called. With `nvcc -G` nothing is inlined: `atomicAdd(&a[i], 1)` calls a
//! function of CUDA's headers, which calls one that the compiler made and that
//! has no line. An access in there is the caller's own, and its line is that of
//! the call.
//!
//! Wrappers are functions without lines, or with lines in CUDA's headers of
//! intrinsics alone, of few instructions in a row, whose parameters and results
//! are scalars. A call in another form than compilers write stays a call. The
//! functions themselves stay in the module, because debug information names
//! them.

use ptx::{
    Block, Edits, File, Function, Instruction, Mnemonic, Module, Operand, OperandKind, Span,
    Statement, Variable, VariableSpace,
};
use rustc_hash::FxHashMap;

/// A wrapper calls a wrapper: that many times in a row at most.
const ROUNDS: u32 = 3;

/// The most instructions of a wrapper.
const INSTRUCTIONS: usize = 48;

/// Registers of what was put in place of a call begin like this.
const PREFIX: &str = "%wrapped";

/// The module with its wrappers in place of their calls; `None` if there are
/// none, which is so of modules that were compiled without `-G`.
pub fn without_wrappers(source: &str) -> Option<String> {
    // Parsing takes long, and few modules are such.
    let (_, target) = source.split_once(".target")?;
    if !target.lines().next()?.contains("debug") {
        return None;
    }
    let mut text = None;
    for round in 0..ROUNDS {
        let of = text.as_deref().unwrap_or(source);
        match one_round(of, round) {
            Some(next) => text = Some(next),
            None => break,
        }
    }
    text
}

fn one_round(source: &str, round: u32) -> Option<String> {
    let module = ptx::parse(source).ok()?;
    if !module.target.contains(&"debug") {
        return None;
    }
    let wrappers: FxHashMap<&str, Wrapper<'_, '_>> = module
        .functions()
        .filter_map(|function| Some((function.name, Wrapper::of(function, &module)?)))
        .collect();
    if wrappers.is_empty() {
        return None;
    }
    let mut edits = Edits::new();
    for function in module.functions() {
        if let Some(body) = &function.body {
            blocks_in(body, &mut |block| {
                if let Some(call) = Call::of(block, &wrappers) {
                    call.replace(source, round, &mut edits);
                }
            });
        }
    }
    (!edits.is_empty()).then(|| edits.apply(source))
}

/// Visits a block and those in it.
fn blocks_in<'m, 'a>(block: &'m Block<'a>, visit: &mut impl FnMut(&'m Block<'a>)) {
    visit(block);
    for statement in &block.statements {
        if let Statement::Block(inner) = statement {
            blocks_in(inner, visit);
        }
    }
}

/// CUDA's headers of atomic operations, and of small numbers, whose constructors and
/// assignments load and store; and the one with `std::move`, which these call.
const HEADERS: [&str; 6] = [
    "/device_atomic_functions.hpp",
    "/cuda_fp16.h",
    "/cuda_fp16.hpp",
    "/cuda_bf16.h",
    "/cuda_bf16.hpp",
    "/bits/move.h",
];

/// Whether it is one of the headers whose functions wrap single instructions.
fn is_of_intrinsics(file: &File<'_>) -> bool {
    let (_, name) = file.name.rsplit_once('/').unwrap_or_default();
    let is_of_architecture = name.starts_with("sm_") && name.ends_with(".hpp");
    is_of_architecture || HEADERS.iter().any(|header| file.name.ends_with(header))
}

/// The bits of a scalar in the `.param` space that one move can write.
fn bits_of(variable: &Variable<'_>) -> Option<u32> {
    let is_scalar = variable.space == VariableSpace::Param
        && variable.vector == 1
        && variable.dimensions.is_empty();
    let bytes = variable.ty.bytes();
    (is_scalar && matches!(bytes, 2 | 4 | 8)).then_some(bytes * 8)
}

/// A function that can be put where it is called.
struct Wrapper<'m, 'a> {
    function: &'m Function<'a>,
    body: &'m Block<'a>,
    /// The registers that its body declares, each with how many it stands for,
    /// if it stands for several.
    registers: Vec<(&'a str, Option<u32>)>,
}

impl<'m, 'a> Wrapper<'m, 'a> {
    fn of(function: &'m Function<'a>, module: &Module<'a>) -> Option<Self> {
        let body = function.body.as_ref()?;
        let mut own = function.parameters.iter().chain(&function.returns);
        if function.is_entry
            || function.returns.len() > 1
            || !own.all(|variable| bits_of(variable).is_some())
            || !returns_at_its_end(function, body)
        {
            return None;
        }
        let mut registers = Vec::new();
        for (_, statement) in function.statements() {
            match statement {
                Statement::Label(_) | Statement::Block(_) | Statement::Instruction(_) => {}
                Statement::Loc(loc) => {
                    let file = module.files().find(|file| file.index == loc.file)?;
                    if !is_of_intrinsics(file) {
                        return None;
                    }
                }
                Statement::Variable(variable) if variable.space == VariableSpace::Reg => {
                    registers.push((variable.name, variable.range));
                }
                _ => return None,
            }
        }
        let wrapper = Wrapper {
            function,
            body,
            registers,
        };
        let is_fit = |instruction| wrapper.is_fit(instruction);
        let are_few = function.instructions().count() <= INSTRUCTIONS;
        (are_few && function.instructions().all(is_fit)).then_some(wrapper)
    }

    /// Whether control flow goes on behind an instruction, which uses parameters
    /// and the result as wholes only.
    fn is_fit(&self, instruction: &Instruction<'a>) -> bool {
        let goes_on = !matches!(
            instruction.opcode.mnemonic(),
            Mnemonic::Bra | Mnemonic::Brx | Mnemonic::Call | Mnemonic::Exit
        );
        let own = self
            .function
            .parameters
            .iter()
            .chain(&self.function.returns);
        let is_whole = Moved::of(instruction, self.function.parameters.iter()).is_some()
            || Moved::of(instruction, self.function.returns.iter()).is_some();
        goes_on
            && (is_whole
                || !own
                    .into_iter()
                    .any(|variable| mentions(instruction, variable.name)))
    }

    /// Appends a block of the body, in registers that begin with `prefix`.
    /// `stands_for` is the register that stands for a parameter or the result.
    fn write(
        &self,
        (source, block): (&str, &Block<'a>),
        prefix: &str,
        stands_for: &FxHashMap<&str, String>,
        out: &mut String,
    ) {
        let own = || {
            self.function
                .parameters
                .iter()
                .chain(&self.function.returns)
        };
        let mut declared = 0;
        out.push_str("{ ");
        for statement in &block.statements {
            match statement {
                Statement::Block(inner) => self.write((source, inner), prefix, stands_for, out),
                // (One declaration may have several names.)
                Statement::Variable(variable) if variable.span.start >= declared => {
                    declared = variable.span.end;
                    self.rename(variable.span.text(source), prefix, out);
                }
                Statement::Instruction(one) if one.opcode.mnemonic() == Mnemonic::Ret => {}
                Statement::Instruction(one) => match Moved::of(one, own()) {
                    None => self.rename(one.span.text(source), prefix, out),
                    Some(moved) => {
                        let place = stands_for
                            .get(moved.variable.name)
                            .map_or("", String::as_str);
                        self.rename(&moved.instead(source, place), prefix, out);
                    }
                },
                _ => {}
            }
            out.push(' ');
        }
        out.push('}');
    }

    /// Appends text without line breaks, in which the registers that the wrapper
    /// declares begin with `prefix`.
    fn rename(&self, text: &str, prefix: &str, out: &mut String) {
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            let (before, from) = rest.split_at(at);
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
            let end = from[1..]
                .find(|c| !is_of_name(c))
                .map_or(from.len(), |n| n + 1);
            let (name, behind) = from.split_at(end);
            push_line(before, out);
            out.push_str(if self.declares(name) { prefix } else { "%" });
            out.push_str(&name[1..]);
            rest = behind;
        }
        push_line(rest, out);
    }

    /// Whether a name is a register of the wrapper, or what declares several.
    fn declares(&self, name: &str) -> bool {
        self.registers.iter().any(|(declared, range)| {
            let number = name.strip_prefix(declared);
            number.is_some_and(|number| {
                number.is_empty()
                    || range.is_some_and(|range| number.parse().is_ok_and(|n: u32| n < range))
            })
        })
    }
}

/// Whether a function's only return is its last instruction.
fn returns_at_its_end(function: &Function<'_>, body: &Block<'_>) -> bool {
    let is_return = |one: &Instruction<'_>| one.opcode.mnemonic() == Mnemonic::Ret;
    let mut backwards = body.statements.iter().rev();
    let last = backwards.find_map(|statement| match statement {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    });
    let ends = last.is_some_and(|last| is_return(last) && last.guard.is_none());
    ends && function.instructions().filter(|one| is_return(one)).count() == 1
}

fn mentions(instruction: &Instruction<'_>, name: &str) -> bool {
    let mut found = false;
    for operand in &instruction.operands {
        operand.names(&mut |mentioned| found |= mentioned == name);
    }
    found
}

/// Appends text without its line breaks.
fn push_line(text: &str, out: &mut String) {
    out.extend(text.chars().map(|c| if c == '\n' { ' ' } else { c }));
}

/// A load or store of a whole scalar in the `.param` space, or a load of the lower half
/// of 32 bits, as of a `short`.
struct Moved<'m, 'a> {
    variable: &'m Variable<'a>,
    is_load: bool,
    is_half: bool,
    /// `b32`; of a number with a fraction, `f32`.
    ty: &'static str,
    /// What is loaded or stored.
    value: Span,
}

impl<'m, 'a> Moved<'m, 'a> {
    /// `None` if it is of none of these variables.
    fn of(
        instruction: &Instruction<'a>,
        mut variables: impl Iterator<Item = &'m Variable<'a>>,
    ) -> Option<Self>
    where
        'a: 'm,
    {
        let [first, second] = &instruction.operands[..] else {
            return None;
        };
        let (is_load, address, value) = match instruction.opcode.mnemonic() {
            Mnemonic::Ld => (true, second, first),
            Mnemonic::St => (false, first, second),
            _ => return None,
        };
        let OperandKind::Address(address) = &address.kind else {
            return None;
        };
        let variable = variables.find(|variable| Some(variable.name) == address.base)?;
        let bits = bits_of(variable)?;
        let ty = instruction.opcode.types().next()?;
        let is_whole = ty.bytes() * 8 == bits;
        let is_name = matches!(value.kind, OperandKind::Name(_));
        let is_half = is_load && is_name && (ty.bytes(), bits) == (2, 32);
        let ty = match (&value.kind, bits) {
            (OperandKind::F32(_) | OperandKind::F64(_), 32) => "f32",
            (OperandKind::F32(_) | OperandKind::F64(_), 64) => "f64",
            (OperandKind::Name(_) | OperandKind::Integer(_), 16) => "b16",
            (OperandKind::Name(_) | OperandKind::Integer(_), 32) => "b32",
            (OperandKind::Name(_) | OperandKind::Integer(_), 64) => "b64",
            _ => return None,
        };
        let is_fit = (is_whole || is_half) && address.offset == 0;
        (is_fit && instruction.guard.is_none()).then_some(Moved {
            variable,
            is_load,
            is_half,
            ty,
            value: value.span,
        })
    }

    /// The move that does the same with a register in place of the variable.
    fn instead(&self, source: &str, register: &str) -> String {
        let value = self.value.text(source);
        match self.is_load {
            true if self.is_half => format!("cvt.u16.u32 {value}, {register};"),
            true => format!("mov.{} {value}, {register};", self.ty),
            false => format!("mov.{} {register}, {value};", self.ty),
        }
    }
}

/// A call of a wrapper, in the form that compilers write: in a block of its own,
/// with stores of the arguments before it and loads of the result behind it.
struct Call<'w, 'm, 'a> {
    wrapper: &'w Wrapper<'m, 'a>,
    span: Span,
    /// The variables of the arguments and the result, each with the wrapper's.
    passed: Vec<(&'m Variable<'a>, &'m Variable<'a>)>,
    /// Loads and stores of them.
    moves: Vec<(Span, Moved<'m, 'a>)>,
}

impl<'w, 'm, 'a> Call<'w, 'm, 'a> {
    fn of(block: &'m Block<'a>, wrappers: &'w FxHashMap<&str, Wrapper<'m, 'a>>) -> Option<Self> {
        let instructions = || {
            block
                .statements
                .iter()
                .filter_map(|statement| match statement {
                    Statement::Instruction(instruction) => Some(instruction),
                    _ => None,
                })
        };
        let is_call = |one: &&Instruction<'_>| one.opcode.mnemonic() == Mnemonic::Call;
        let call = instructions().find(is_call)?;
        let (place, name) = call.called_function()?;
        let wrapper = wrappers.get(name)?;
        let (results, arguments) = (
            list(&call.operands[..place])?,
            list(&call.operands[place + 1..])?,
        );
        let function = wrapper.function;
        if call.guard.is_some()
            || instructions().filter(is_call).count() != 1
            || arguments.len() != function.parameters.len()
            || results.len() != function.returns.len()
        {
            return None;
        }
        let declared = |name: &str| {
            block
                .statements
                .iter()
                .find_map(|statement| match statement {
                    Statement::Variable(variable) if variable.name == name => Some(variable),
                    _ => None,
                })
        };
        let theirs = function.parameters.iter().chain(&function.returns);
        let mut passed = Vec::new();
        for (name, of) in arguments.iter().chain(&results).zip(theirs) {
            let variable = declared(name)?;
            if bits_of(variable)? != bits_of(of)? {
                return None;
            }
            passed.push((variable, of));
        }
        let mut moves = Vec::new();
        for instruction in instructions().filter(|one| !is_call(one)) {
            match Moved::of(instruction, passed.iter().map(|(variable, _)| *variable)) {
                Some(moved) => moves.push((instruction.span, moved)),
                None if passed
                    .iter()
                    .any(|(own, _)| mentions(instruction, own.name)) =>
                {
                    return None;
                }
                None => {}
            }
        }
        Some(Call {
            wrapper,
            span: call.span,
            passed,
            moves,
        })
    }

    /// Puts the body in the place of the call, and registers in that of what is
    /// passed. Lines keep their numbers.
    fn replace(&self, source: &str, round: u32, edits: &mut Edits) {
        let prefix = format!("{PREFIX}{round}_{}_", self.span.start);
        let register = |variable: &Variable<'_>| format!("{prefix}{}", variable.name);
        let mut replace = |span: Span, mut text: String| {
            text.extend(span.text(source).chars().filter(|c| *c == '\n'));
            edits.replace(span, text);
        };
        for (own, _) in &self.passed {
            let bits = own.ty.bytes() * 8;
            replace(own.span, format!(".reg .b{bits} {};", register(own)));
        }
        for (span, moved) in &self.moves {
            replace(*span, moved.instead(source, &register(moved.variable)));
        }
        let stands_for = self
            .passed
            .iter()
            .map(|(own, of)| (of.name, register(own)))
            .collect();
        let mut body = String::new();
        let of_body = (source, self.wrapper.body);
        self.wrapper
            .write(of_body, &format!("{prefix}of_"), &stands_for, &mut body);
        replace(self.span, body);
    }
}

/// The names in a call's list of arguments or results; none without a list.
/// `None` if it holds something else.
fn list<'a>(operands: &[Operand<'a>]) -> Option<Vec<&'a str>> {
    let name = |operand: &Operand<'a>| match operand.kind {
        OperandKind::Name(name) => Some(name),
        _ => None,
    };
    match operands {
        [] => Some(Vec::new()),
        [operand] => match &operand.kind {
            OperandKind::List(elements) => elements.iter().map(name).collect(),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::without_wrappers;

    const TEXT: &str = "\
.version 8.0
.target sm_80, debug
.address_size 64
.func (.param .b32 out) builtin(.param .b64 p, .param .b32 v)
{
.reg .b32 %r<3>; .reg .b64 %rd<2>;
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [v];
atom.add.u32 %r2, [%rd1], %r1;
st.param.b32 [out+0], %r2;
ret;
end:
}
.func (.param .b32 out) wrapper(.param .b64 p)
{
.reg .b32 %r<3>; .reg .b64 %rd<2>;
.loc 1 107 3
ld.param.u64 %rd1, [p];
{
.param .b64 param0; st.param.b64 [param0+0], %rd1;
.param .b32 param1; st.param.b32 [param1+0], 1;
.param .b32 retval0;
call.uni (retval0),
builtin,
(
param0,
param1
);
ld.param.b32 %r1, [retval0+0];
}
st.param.b32 [out+0], %r1;
ret;
}
.visible .entry k(.param .u64 p)
{
.reg .b32 %r<3>; .reg .b64 %rd<2>;
.loc 2 5 7
ld.param.u64 %rd1, [p];
{
.param .b64 param0; st.param.b64 [param0+0], %rd1;
.param .b32 retval0;
call.uni (retval0), wrapper, (param0);
ld.param.b32 %r1, [retval0+0];
}
ret;
}
.file 1 \"/cuda/include/device_atomic_functions.hpp\"
.file 2 \"main.cu\"
";

    #[test]
    fn a_wrapped_access_has_the_line_of_the_outermost_call() {
        for header in ["sm_70_rt.hpp", "cuda_fp16.h", "bits/move.h"] {
            let of_header = TEXT.replace("device_atomic_functions.hpp", header);
            assert!(without_wrappers(&of_header).is_some_and(|text| !text.contains("(param0);")));
        }
        let text = without_wrappers(TEXT).unwrap();
        let made = crate::instrument(&text, &crate::Options::default()).unwrap();
        crate::verify(&text, &made.text, &made.entries).unwrap();
        let of_kernel = made.sites.iter().find(|site| site.function == "k").unwrap();
        let place = of_kernel.source.as_ref().unwrap();
        assert_eq!((place.file.as_str(), place.line), ("main.cu", 5));
        assert_eq!(text.lines().count(), TEXT.lines().count());
        let kernel = &text[text.find(".entry").unwrap()..];
        assert!(!kernel.contains("call"), "{kernel}");
        assert_eq!(without_wrappers(&text), None);
    }

    #[test]
    fn a_parameter_of_16_bits_is_half_of_one_of_32() {
        let whole = "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [v];";
        let half = ".reg .b16 %rs<2>; ld.param.u64 %rd1, [p]; ld.param.u16 %rs1, [v]; \
                    cvt.u32.u16 %r1, %rs1;";
        let text = without_wrappers(&TEXT.replace(whole, half)).unwrap();
        let kernel = &text[text.find(".entry").unwrap()..];
        assert!(
            !kernel.contains("call") && kernel.contains("cvt.u16.u32"),
            "{kernel}"
        );
        let made = crate::instrument(&text, &crate::Options::default()).unwrap();
        crate::verify(&text, &made.text, &made.entries).unwrap();
        let shifted = half.replace("[v]", "[v+2]");
        let text = without_wrappers(&TEXT.replace(whole, &shifted));
        assert!(text.is_none_or(|text| text.contains("builtin,")));
    }

    #[test]
    fn functions_of_the_program_and_other_forms_stay_calls() {
        let of_program = TEXT.replace("device_atomic_functions.hpp", "atomics.cuh");
        let text = without_wrappers(&of_program).unwrap();
        assert!(text.contains("call.uni (retval0), wrapper"));
        assert!(!text.contains("call.uni (retval0),\nbuiltin"));
        for (old, new) in [
            (", debug", ""),
            ("call.uni (retval0)", "@%p call.uni (retval0)"),
            ("\nret;\nend:", "\n@%p ret;\nend: ret;"),
            ("atom.add", "bra end; atom.add"),
            ("[out+0], %r2", "[out+2], %r2"),
            ("st.param.b64 [param0+0], %rd1", "mov.b64 %rd2, param0"),
        ] {
            let other = TEXT.replace(old, new);
            assert_ne!(other, TEXT);
            let text = without_wrappers(&other).unwrap_or(other);
            assert!(text.contains("\nbuiltin"), "{new}: {text}");
        }
    }
}
