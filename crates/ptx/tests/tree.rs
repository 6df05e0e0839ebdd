//! What the tree says of a file that has one of everything.

use ptx::{
    Function, Instruction, Item, LineIndex, Linkage, Modifier, Module, OperandKind, Position,
    Statement, Type, Value, VariableSpace, parse,
};

const SOURCE: &str = r#"// A comment.
.version 8.3
.target sm_90a, debug
.address_size 64
.file	1 "/src/a.cu"
.file	2 "/src/b.h", 1700000000, 4096

.extern .func (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0,
	.param .b64 vprintf_param_1
)
;
.extern .shared .align 16 .b8 dynamic[];
.visible .global .align 8 .u64 table[2] = {generic(data)+8, f};
.global .align 4 .b8 data[16] = {1, 0x02, 0b11, 0xFF(table), 0xFF00(table)};
.const .attribute(.managed) .align 16 .v4 .f32 constant = 0f3F800000;
.weak .global .b32 grid[2][3], flag;
.pragma "nounroll";
.alias g, f;

.func (.param .align 8 .b8 r[16]) f(.param .align 8 .b8 p[16], .reg .b32 q) .noreturn
{
	trap;
}

.visible .entry kernel(
	.param .u64 .ptr .global .align 16 kernel_a,
	.param .align 8 .b8 kernel_b[24],
	.param .f32 kernel_c
)
.maxntid 128, 1, 1
.minnctapersm 2
.pragma "used_bytes_mask 15";
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<9>, %x;
	.local .align 16 .b8 	__local_depot0[240];
	.loc	1 5 30
	.loc	2 107 3, function_name $L__info_string0+2, inlined_at 1 6 31
	@!%p1 ld.global.v2.b32 	{%r1, _}, [%rd1+-4];
$L__BB0_1:
	{ // callseq 0, 0
	.reg .b32 temp_param_reg;
	.param .b64 param0;
	prototype_0 : .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]);
	call.uni (retval0), %rd2, (param0, param1), prototype_0;
	} // callseq 0
	targets: .branchtargets $L__BB0_1, done;
	brx.idx %r1, targets;
	.pragma "nounroll";
	setp.lt.f32 	%p1|%p2, 0f3F800000, 0d4000000000000000, !%p0, -1.5, 0x10;
	tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [texture, sampler, {%r1, %r2}];
	mov.u64 %rd1, data+4;
	unknown.opcode %a;
	.unknown directive;
done:
	ret;
}
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90,0

	}
"#;

fn module() -> Module<'static> {
    parse(SOURCE).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn function<'m>(module: &'m Module<'static>, name: &str) -> &'m Function<'static> {
    module
        .functions()
        .find(|f| f.name == name)
        .expect("function")
}

fn instruction<'m>(module: &'m Module<'static>, base: &str) -> &'m Instruction<'static> {
    function(module, "kernel")
        .instructions()
        .find(|i| i.opcode.text.split('.').next() == Some(base))
        .expect("instruction")
}

#[test]
fn header_and_files() {
    let module = module();
    assert_eq!((module.version, module.address_size), ((8, 3), 64));
    assert_eq!(module.target, ["sm_90a", "debug"]);
    assert_eq!(module.file_name(1), Some("/src/a.cu"));
    assert_eq!(module.file_name(2), Some("/src/b.h"));
    assert_eq!(module.file_name(3), None);
    let others: Vec<_> = module
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Other(span) => Some(span.text(SOURCE).split_whitespace().next().expect("text")),
            _ => None,
        })
        .collect();
    assert_eq!(others, [".pragma", ".alias", ".section"]);
}

#[test]
fn variables() {
    let module = module();
    let variables: Vec<_> = module.variables().collect();
    let names: Vec<_> = variables.iter().map(|v| v.name).collect();
    assert_eq!(
        names,
        ["dynamic", "table", "data", "constant", "grid", "flag"]
    );
    let [dynamic, table, data, constant, grid, flag] = variables[..] else {
        panic!()
    };
    assert_eq!(
        (dynamic.space, dynamic.linkage, dynamic.size()),
        (VariableSpace::Shared, Linkage::Extern, None)
    );
    assert_eq!(
        (table.size(), table.alignment(), table.ty, table.linkage),
        (Some(16), 8, Type::U64, Linkage::Visible)
    );
    assert_eq!(
        (constant.vector, constant.size(), constant.alignment()),
        (4, Some(16), 16)
    );
    assert_eq!(
        (grid.size(), grid.linkage, &grid.dimensions[..]),
        (Some(24), Linkage::Weak, &[Some(2), Some(3)][..])
    );
    assert_eq!((flag.size(), flag.span), (Some(4), grid.span));
    assert_eq!(
        flag.span.text(SOURCE),
        ".weak .global .b32 grid[2][3], flag;"
    );

    let symbol = |name: &str, offset, is_generic, mask| Value::Symbol {
        name: name.into(),
        offset,
        is_generic,
        mask,
    };
    let value = |v: &ptx::Variable<'_>| v.initial_value(SOURCE).expect("a value");
    assert_eq!(
        value(table),
        Some(Value::List(vec![
            symbol("data", 8, true, None),
            symbol("f", 0, false, None)
        ]))
    );
    assert_eq!(
        value(data),
        Some(Value::List(vec![
            Value::Integer(1),
            Value::Integer(2),
            Value::Integer(3),
            symbol("table", 0, false, Some(0xFF)),
            symbol("table", 0, false, Some(0xFF00)),
        ]))
    );
    assert_eq!(value(constant), Some(Value::F32(0x3F80_0000)));
    assert_eq!(value(dynamic), None);
}

#[test]
fn functions() {
    let module = module();
    let print = function(&module, "vprintf");
    assert!(print.body.is_none() && !print.is_entry && print.linkage == Linkage::Extern);
    assert_eq!((print.returns.len(), print.parameters.len()), (1, 2));
    assert!(
        print.span.text(SOURCE).starts_with(".extern") && print.span.text(SOURCE).ends_with(";")
    );

    let f = function(&module, "f");
    assert_eq!(f.returns[0].size(), Some(16));
    assert_eq!(f.parameters[1].space, VariableSpace::Reg);
    assert_eq!(f.directives[0].name, ".noreturn");

    let kernel = function(&module, "kernel");
    assert!(kernel.is_entry && kernel.linkage == Linkage::Visible);
    assert!(
        kernel.span.text(SOURCE).starts_with(".visible") && kernel.span.text(SOURCE).ends_with("}")
    );
    let list = kernel.parameter_list.expect("parameters").text(SOURCE);
    assert!(list.starts_with('(') && list.ends_with(')'));
    let [a, b, c] = &kernel.parameters[..] else {
        panic!()
    };
    // `.align` after `.ptr` is the alignment of what the pointer points to.
    assert!(a.is_pointer && !b.is_pointer);
    assert!(a.has_attributes && !b.has_attributes && !c.has_attributes);
    assert_eq!(
        (a.size(), a.alignment(), b.size(), b.alignment(), c.ty),
        (Some(8), 8, Some(24), 8, Type::F32)
    );
    assert_eq!(b.span.text(SOURCE), ".param .align 8 .b8 kernel_b[24]");
    let directives: Vec<_> = kernel
        .directives
        .iter()
        .map(|d| (d.name, d.arguments))
        .collect();
    let pragma = (".pragma", "\"used_bytes_mask 15\";");
    assert_eq!(
        directives,
        [(".maxntid", "128, 1, 1"), (".minnctapersm", "2"), pragma]
    );
}

#[test]
fn statements() {
    let module = module();
    let kernel = function(&module, "kernel");
    let kinds: String = kernel
        .statements()
        .map(|(depth, statement)| {
            let kind = match statement {
                Statement::Label(_) => 'l',
                Statement::Instruction(_) => 'i',
                Statement::Variable(_) => 'v',
                Statement::Block(_) => 'b',
                Statement::Loc(_) => '.',
                Statement::Pragma(_) => 'p',
                Statement::Targets(_) => 't',
                Statement::CallPrototype(_) => 'c',
                Statement::Other(_) => 'o',
            };
            format!("{kind}{depth} ")
        })
        .collect();
    assert_eq!(
        kinds,
        "v0 v0 v0 v0 .0 .0 i0 l0 b0 v1 v1 c1 i1 t0 i0 p0 i0 i0 i0 i0 o0 l0 i0 "
    );
    let mut locs = kernel.statements().filter_map(|(_, s)| {
        if let Statement::Loc(loc) = s {
            Some(loc)
        } else {
            None
        }
    });
    let (first, second) = (locs.next().expect("loc"), locs.next().expect("loc"));
    assert_eq!(
        (
            first.file,
            first.line,
            first.column,
            first.inlined_at,
            first.rest
        ),
        (1, 5, 30, None, "")
    );
    assert_eq!(
        (second.file, second.line, second.inlined_at),
        (2, 107, Some((1, 6, 31)))
    );
    assert!(second.rest.contains("function_name $L__info_string0+2"));
    for (_, statement) in kernel.statements() {
        match statement {
            Statement::Variable(v) if v.name == "%r" => {
                assert_eq!((v.range, v.size()), (Some(9), Some(4)))
            }
            Statement::Variable(v) if v.name == "%x" => assert_eq!(v.range, None),
            Statement::Variable(v) if v.name == "__local_depot0" => assert_eq!(v.size(), Some(240)),
            Statement::Targets(t) => assert_eq!(
                (t.label, &t.names[..]),
                ("targets", &["$L__BB0_1", "done"][..])
            ),
            Statement::CallPrototype(p) => {
                assert_eq!(
                    (p.label, p.returns.len(), p.parameters.len()),
                    ("prototype_0", 1, 2)
                );
                assert_eq!(p.parameters[1].size(), Some(16));
                assert!(
                    p.span.text(SOURCE).starts_with("prototype_0 :")
                        && p.span.text(SOURCE).ends_with(';')
                );
            }
            _ => {}
        }
    }
}

#[test]
fn operands() {
    let module = module();
    let kind = |base: &str, index: usize| instruction(&module, base).operands[index].kind.clone();

    let load = instruction(&module, "ld");
    let guard = load.guard.expect("guard");
    assert!(guard.negated && guard.register == "%p1" && guard.span.text(SOURCE) == "@!%p1");
    assert!(load.span.text(SOURCE).starts_with("@!%p1") && load.span.text(SOURCE).ends_with(';'));
    assert!(
        load.opcode.has(Modifier::Global)
            && load.opcode.has(Modifier::V2)
            && !load.opcode.has(Modifier::Ld)
    );
    assert_eq!(load.opcode.types().collect::<Vec<_>>(), [Type::B32]);
    let (index, address) = load.address_operand().expect("address");
    assert_eq!((index, address.base, address.offset), (1, Some("%rd1"), -4));
    assert_eq!(address.base_span.text(SOURCE), "%rd1");
    let OperandKind::Vector(elements) = kind("ld", 0) else {
        panic!()
    };
    assert_eq!(
        (&elements[0].kind, &elements[1].kind),
        (&OperandKind::Name("%r1"), &OperandKind::Sink)
    );

    assert!(matches!(kind("call", 0), OperandKind::List(list) if list.len() == 1));
    assert_eq!(kind("call", 1), OperandKind::Name("%rd2"));
    assert!(matches!(kind("call", 2), OperandKind::List(list) if list.len() == 2));
    assert_eq!(kind("call", 3), OperandKind::Name("prototype_0"));

    assert_eq!(kind("setp", 0), OperandKind::Pair("%p1", "%p2"));
    assert_eq!(kind("setp", 1), OperandKind::F32(0x3F80_0000));
    assert_eq!(kind("setp", 2), OperandKind::F64(0x4000_0000_0000_0000));
    assert_eq!(kind("setp", 3), OperandKind::Not("%p0"));
    assert_eq!(kind("setp", 4), OperandKind::F64((-1.5f64).to_bits()));
    assert_eq!(kind("setp", 5), OperandKind::Integer(16));

    let texture = instruction(&module, "tex")
        .addresses()
        .next()
        .expect("address")
        .1;
    assert_eq!(
        (texture.base, texture.coordinates.len()),
        (Some("texture"), 2)
    );
    assert_eq!(kind("mov", 1), OperandKind::NameOffset("data", 4));
    assert_eq!(kind("unknown", 0), OperandKind::Name("%a"));

    let mut names = Vec::new();
    for operand in &instruction(&module, "tex").operands {
        operand.names(&mut |name| names.push(name));
    }
    assert_eq!(
        names,
        [
            "%f1", "%f2", "%f3", "%f4", "texture", "sampler", "%r1", "%r2"
        ]
    );
}

#[test]
fn lines() {
    let text = "ab\né\n\r\nlast";
    let lines = LineIndex::new(text);
    for offset in (0..text.len() as u32).filter(|o| text.is_char_boundary(*o as usize)) {
        assert_eq!(lines.position(offset), Position::of(text, offset));
    }
    assert_eq!(lines.position(4), lines.position(3), "inside a character");
    assert_eq!(lines.position(1000), Position { line: 4, column: 5 });
    assert_eq!(
        ["", "ab", "é", "", "last", ""],
        [0, 1, 2, 3, 4, 5].map(|line| lines.line(line))
    );
}

#[test]
fn edits_apply_by_span() {
    let module = module();
    let load = instruction(&module, "ld");
    let (_, address) = load.address_operand().expect("address");
    let mut edits = ptx::Edits::new();
    edits.replace(address.base_span, "%safe");
    edits.insert(load.span.start, "/* before */ ");
    edits.insert(load.span.end, " /* after */");
    let text = edits.apply(SOURCE);
    let expected = "\t/* before */ @!%p1 ld.global.v2.b32 \t{%r1, _}, [%safe+-4]; /* after */\n";
    assert!(text.contains(expected));
    assert_eq!(
        text.replace(
            expected,
            "\t@!%p1 ld.global.v2.b32 \t{%r1, _}, [%rd1+-4];\n"
        ),
        SOURCE
    );
}
