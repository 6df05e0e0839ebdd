//! A random kernel as PTX, and the line of every access.

use super::model::{Access, Action, Guard, Kernel, Object, Repeat, Root, Variable, WRITTEN};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Where an object of the frame starts. (Before them is another.)
fn local_at(kernel: &Kernel, object: Object) -> u64 {
    match object {
        Object::LocalWrite => 16 + kernel.size(Object::Local),
        _ => 16,
    }
}

/// Bytes into the buffer that a pointer in the table points to.
pub fn table_delta(kernel: &Kernel, object: Object) -> u64 {
    (kernel.size(object) & !15).min(16)
}

/// What PTX calls a variable, or what the object is part of.
fn name_of(object: Object) -> &'static str {
    match object {
        Object::Variable => "variable",
        Object::SharedRead => "shared_read",
        Object::SharedWrite => "shared_write",
        Object::SharedAtomic => "shared_atomic",
        Object::Dynamic => "dynamic",
        Object::Local | Object::LocalWrite => "__local_depot0",
        Object::Const => "constants",
        _ => "array",
    }
}

/// Position of a buffer among the pointers of parameters, struct and table.
pub fn slot(object: Object) -> u64 {
    match object {
        Object::Read => 0,
        Object::ReadToo => 1,
        Object::Write => 2,
        _ => 3,
    }
}

/// Bytes of the kernel's own parameter array.
pub fn parameter_bytes(kernel: &Kernel) -> u64 {
    kernel.size(Object::Parameter).next_multiple_of(8)
}

pub struct Text {
    pub ptx: String,
    /// Line of an access and of its second.
    pub lines: BTreeMap<(usize, usize), u32>,
}

struct Writer<'k> {
    kernel: &'k Kernel,
    out: String,
    line: u32,
    registers: u32,
    lines: BTreeMap<(usize, usize), u32>,
    functions: BTreeMap<&'static str, u32>,
}

const HEAD: &str = "\
.version 8.0
.target sm_80
.address_size 64";

/// The functions that make accesses for their callers.
const FUNCTIONS: [(&str, &str); 3] = [
    ("read_at", "ld.u32 %r1, [%rd3];"),
    ("write_at", "st.u32 [%rd3], %r1;"),
    ("add_at", "red.add.u32 [%rd3], 1;"),
];

pub fn write(kernel: &Kernel, name: &str) -> Text {
    let mut writer = Writer {
        kernel,
        out: String::new(),
        line: 0,
        registers: 0,
        lines: BTreeMap::new(),
        functions: BTreeMap::new(),
    };
    for line in HEAD.lines() {
        writer.put(line);
    }
    writer.data();
    for (name, access) in FUNCTIONS {
        writer.function(name, access);
    }
    writer.entry(name);
    Text {
        ptx: writer.out,
        lines: writer.lines,
    }
}

impl Writer<'_> {
    /// Writes a line and returns its number.
    fn put(&mut self, line: impl AsRef<str>) -> u32 {
        self.out.push_str(line.as_ref());
        self.out.push('\n');
        self.line += 1;
        self.line
    }

    /// A register that is used for the first time.
    fn fresh(&mut self, family: &str) -> String {
        self.registers += 1;
        format!("%{family}{}", self.registers)
    }

    fn size(&self, object: Object) -> u64 {
        self.kernel.size(object)
    }

    fn data(&mut self) {
        for (directive, name, object) in [
            (".visible .global", "variable", Object::Variable),
            (".const", "constants", Object::Const),
        ] {
            let bytes: Vec<String> = (0..self.size(object))
                .map(|offset| object.initial(offset).to_string())
                .collect();
            self.put(format!(
                "{directive} .align 16 .b8 {name}[{}] = {{{}}};",
                bytes.len(),
                bytes.join(", ")
            ));
        }
        self.put(".extern .shared .align 16 .b8 dynamic[];");
    }

    fn function(&mut self, name: &'static str, access: &str) {
        self.put(format!(
            ".func (.param .b32 out) {name}(.param .b64 pointer, .param .b64 offset, .param .b32 value)"
        ));
        for line in [
            "{",
            ".reg .b64 %rd<4>;",
            ".reg .b32 %r<2>;",
            "ld.param.u64 %rd1, [pointer];",
            "ld.param.u64 %rd2, [offset];",
            "ld.param.u32 %r1, [value];",
            "add.s64 %rd3, %rd1, %rd2;",
        ] {
            self.put(line);
        }
        let line = self.put(access);
        self.functions.insert(name, line);
        for line in ["st.param.b32 [out], %r1;", "ret;", "}"] {
            self.put(line);
        }
    }

    fn entry(&mut self, name: &str) {
        let [shared_read, shared_write, shared_atomic] = [
            Object::SharedRead,
            Object::SharedWrite,
            Object::SharedAtomic,
        ]
        .map(|object| self.size(object));
        let frame = local_at(self.kernel, Object::LocalWrite) + self.size(Object::LocalWrite);
        let block = self.kernel.shape.block;
        self.put(format!(".visible .entry {name}("));
        for parameter in [
            "out", "loaded", "dump", "counts", "table", "p0", "p1", "p2", "p3",
        ] {
            self.put(format!(".param .u64 {parameter},"));
        }
        self.put(".param .align 8 .b8 pointers[32],");
        self.put(format!(
            ".param .align 16 .b8 array[{}]",
            parameter_bytes(self.kernel)
        ));
        self.put(") {");
        let registers_at = self.out.len();
        self.put(""); // The register declarations, once their number is known.
        self.put(format!(".shared .align 16 .b8 shared_read[{shared_read}];"));
        self.put(format!(
            ".shared .align 16 .b8 shared_write[{shared_write}];"
        ));
        self.put(format!(
            ".shared .align 16 .b8 shared_atomic[{shared_atomic}];"
        ));
        self.put(format!(".shared .align 8 .b8 mail[{}];", block * 8));
        self.put(format!(".local .align 16 .b8 __local_depot0[{frame}];"));
        for line in [
            "mov.u32 %tid, %tid.x;",
            "mov.u32 %block, %ctaid.x;",
            "mov.u32 %size, %ntid.x;",
            "mad.lo.u32 %number, %block, %size, %tid;",
            "mov.u32 %sum, 0;",
            "mov.u32 %fill32, WRITTEN32;",
            "mov.u64 %fill64, WRITTEN64;",
            "ld.param.u64 %loaded, [loaded];",
            "cvta.to.global.u64 %loaded, %loaded;",
            "mul.wide.u32 %by4, %number, 4;",
            "add.s64 %loaded, %loaded, %by4;",
            "mov.u64 %frame, __local_depot0;",
            "st.local.v2.u64 [%frame], {%by4, %by4};",
        ] {
            let line = line
                .replace("WRITTEN32", &u32::from_ne_bytes([WRITTEN; 4]).to_string())
                .replace("WRITTEN64", &u64::from_ne_bytes([WRITTEN; 8]).to_string());
            self.put(line);
        }
        for object in [
            Object::SharedRead,
            Object::SharedWrite,
            Object::SharedAtomic,
            Object::Dynamic,
        ] {
            self.fill(object, "%tid", block);
        }
        self.fill(Object::Local, "0", 1);
        self.fill(Object::LocalWrite, "0", 1);
        self.put("bar.sync 0;");
        let kernel = self.kernel;
        for (index, access) in kernel.accesses.iter().enumerate() {
            self.access(index, access);
        }
        self.put("bar.sync 0;");
        self.dump("dump", Object::SharedWrite);
        self.dump("counts", Object::SharedAtomic);
        self.add_up_local();
        for line in [
            "ld.param.u64 %out, [out];",
            "cvta.to.global.u64 %out, %out;",
            "add.s64 %out, %out, %by4;",
            "st.global.u32 [%out], %sum;",
            "ret;",
            "}",
        ] {
            self.put(line);
        }
        let mut registers = String::new();
        for (family, kind) in [("rd", "b64"), ("r", "b32"), ("p", "pred")] {
            let _ = write!(
                registers,
                ".reg .{kind} %{family}<{}>; ",
                self.registers + 1
            );
        }
        registers += ".reg .b32 %tid, %block, %size, %number, %sum, %fill32; \
                      .reg .b64 %fill64, %loaded, %by4, %out, %frame;";
        self.out.insert_str(registers_at, &registers);
    }

    /// A loop over the bytes of an object, `step` at a time.
    fn bytes(&mut self, size: u64, first: &str, step: u32, body: impl FnOnce(&mut Self, &str)) {
        let (at, more) = (self.fresh("r"), self.fresh("p"));
        let label = self.registers;
        self.put(format!("mov.u32 {at}, {first};"));
        self.put(format!("$bytes_{label}:"));
        self.put(format!("setp.lt.u32 {more}, {at}, {size};"));
        self.put(format!("@!{more} bra $bytes_end_{label};"));
        body(self, &at);
        self.put(format!("add.u32 {at}, {at}, {step};"));
        self.put(format!("bra $bytes_{label};"));
        self.put(format!("$bytes_end_{label}:"));
    }

    /// Gives an object its first contents.
    fn fill(&mut self, object: Object, first: &str, step: u32) {
        let (name, space) = (name_of(object), object.space());
        let start = local_at(self.kernel, object);
        let (zero, one) = (
            object.initial(0),
            object.initial(1).wrapping_sub(object.initial(0)),
        );
        self.bytes(self.size(object), first, step, |out, at| {
            let (value, base, address, wide) = (
                out.fresh("r"),
                out.fresh("rd"),
                out.fresh("rd"),
                out.fresh("rd"),
            );
            out.put(format!("mad.lo.u32 {value}, {at}, {one}, {zero};"));
            out.put(format!("mov.u64 {base}, {name};"));
            if space == "local" {
                // As compilers name an object of the frame.
                out.put(format!("add.u64 {base}, {base}, {start};"));
            }
            out.put(format!("cvt.u64.u32 {wide}, {at};"));
            out.put(format!("add.s64 {address}, {base}, {wide};"));
            out.put(format!("st.{space}.u8 [{address}], {value};"));
        });
    }

    /// Copies what was written in shared memory out.
    fn dump(&mut self, parameter: &str, object: Object) {
        let (size, block) = (self.size(object), self.kernel.shape.block);
        let (dump, own) = (self.fresh("rd"), self.fresh("rd"));
        self.put(format!("ld.param.u64 {dump}, [{parameter}];"));
        self.put(format!("cvta.to.global.u64 {dump}, {dump};"));
        self.put(format!("mul.wide.u32 {own}, %block, {size};"));
        self.put(format!("add.s64 {dump}, {dump}, {own};"));
        self.bytes(size, "%tid", block, |out, at| {
            let (value, from, base) = (out.fresh("r"), out.fresh("r"), out.fresh("r"));
            let (to, wide) = (out.fresh("rd"), out.fresh("rd"));
            out.put(format!("mov.u32 {base}, {};", name_of(object)));
            out.put(format!("add.s32 {from}, {base}, {at};"));
            out.put(format!("ld.shared.u8 {value}, [{from}];"));
            out.put(format!("cvt.u64.u32 {wide}, {at};"));
            out.put(format!("add.s64 {to}, {dump}, {wide};"));
            out.put(format!("st.global.u8 [{to}], {value};"));
        });
    }

    /// Adds all bytes of the thread's own written object to its sum.
    fn add_up_local(&mut self) {
        let start = local_at(self.kernel, Object::LocalWrite);
        self.bytes(self.size(Object::LocalWrite), "0", 1, |out, at| {
            let (value, base, wide) = (out.fresh("r"), out.fresh("rd"), out.fresh("rd"));
            out.put(format!("mov.u64 {base}, __local_depot0;"));
            out.put(format!("add.u64 {base}, {base}, {start};"));
            out.put(format!("cvt.u64.u32 {wide}, {at};"));
            out.put(format!("add.s64 {base}, {base}, {wide};"));
            out.put(format!("ld.local.u8 {value}, [{base}];"));
            out.add_up("", &value, false);
        });
    }

    fn access(&mut self, index: usize, access: &Access) {
        let guard = self.fresh("p");
        let test = match access.guard {
            Guard::All => None,
            Guard::Below(limit) | Guard::BranchBelow(limit) => {
                Some(format!("setp.lt.u32 {guard}, %number, {limit};"))
            }
            Guard::Only(one) => Some(format!("setp.eq.u32 {guard}, %number, {one};")),
            Guard::Odd => {
                let bit = self.fresh("r");
                self.put(format!("and.b32 {bit}, %tid, 1;"));
                Some(format!("setp.ne.u32 {guard}, {bit}, 0;"))
            }
        };
        let guarded = test.is_some();
        if let Some(test) = test {
            self.put(test);
        }
        let branch = guarded
            && (access.root == Root::Function || matches!(access.guard, Guard::BranchBelow(_)));
        if branch {
            self.put(format!("@!{guard} bra $skip_{index};"));
        }
        let prefix = if guarded && !branch {
            format!("@{guard} ")
        } else {
            String::new()
        };
        let offset = self.offset(access);
        let (pointer, narrow) = self.pointer(access);
        let address = self.sum(&pointer, &offset, narrow);
        match access.repeat {
            Repeat::Once => self.instructions(index, access, &prefix, &address, &pointer, &offset),
            Repeat::Loop(count, step) | Repeat::Walk(count, step) => {
                let walks = matches!(access.repeat, Repeat::Walk(..));
                let (turn, more) = (self.fresh("r"), self.fresh("p"));
                let moved = self.fresh(if narrow { "r" } else { "rd" });
                let moved_offset = self.fresh("rd");
                let wide = if narrow { "s32" } else { "s64" };
                self.put(format!("mov.u32 {turn}, 0;"));
                self.put(format!(
                    "mov.{} {moved}, {address};",
                    wide.replace('s', "b")
                ));
                self.put(format!("mov.b64 {moved_offset}, {offset};"));
                self.put(format!("$loop_{index}:"));
                if !walks {
                    let by = self.fresh("rd");
                    self.put(format!("mul.wide.s32 {by}, {turn}, {step};"));
                    self.put(format!("add.s64 {moved_offset}, {offset}, {by};"));
                    if narrow {
                        let low = self.fresh("r");
                        self.put(format!("cvt.u32.u64 {low}, {by};"));
                        self.put(format!("add.s32 {moved}, {address}, {low};"));
                    } else {
                        self.put(format!("add.s64 {moved}, {address}, {by};"));
                    }
                }
                self.instructions(index, access, &prefix, &moved, &pointer, &moved_offset);
                if walks {
                    self.put(format!("add.{wide} {moved}, {moved}, {step};"));
                    self.put(format!("add.s64 {moved_offset}, {moved_offset}, {step};"));
                }
                self.put(format!("add.u32 {turn}, {turn}, 1;"));
                self.put(format!("setp.lt.u32 {more}, {turn}, {count};"));
                self.put(format!("@{more} bra $loop_{index};"));
            }
        }
        if branch {
            self.put(format!("$skip_{index}:"));
        }
    }

    /// The offset from the object's first byte, less what the instruction
    /// or the pointer itself holds.
    fn offset(&mut self, access: &Access) -> String {
        let variable = match access.variable {
            Variable::Zero => None,
            Variable::Thread => Some("%tid".to_owned()),
            Variable::Global => Some("%number".to_owned()),
            Variable::Masked(mask) => {
                let low = self.fresh("r");
                self.put(format!("and.b32 {low}, %number, {mask};"));
                Some(low)
            }
            Variable::Turned(bits) => {
                let turned = self.fresh("r");
                self.put(format!("xor.b32 {turned}, %number, {bits};"));
                Some(turned)
            }
            Variable::Loaded => {
                let value = self.fresh("r");
                self.put(format!("ld.global.u32 {value}, [%loaded];"));
                Some(value)
            }
        };
        let mut constant = if self.folds(access) {
            0
        } else {
            access.constant
        };
        if access.root == Root::Table {
            constant -= table_delta(self.kernel, access.object) as i64;
        }
        let offset = self.fresh("rd");
        match variable {
            None => self.put(format!("mov.u64 {offset}, {constant};")),
            Some(variable) => {
                let scaled = self.fresh("rd");
                self.put(format!(
                    "mul.wide.s32 {scaled}, {variable}, {};",
                    access.scale
                ));
                self.put(format!("add.s64 {offset}, {scaled}, {constant};"))
            }
        };
        offset
    }

    /// Whether the constant goes into the instruction.
    fn folds(&self, access: &Access) -> bool {
        access.folded && access.root != Root::Function
    }

    /// A register with the object's address, and whether it is a 32-bit one.
    fn pointer(&mut self, access: &Access) -> (String, bool) {
        let object = access.object;
        let pointer = self.fresh("rd");
        if object.space() != "global" || object == Object::Variable {
            let name = name_of(object);
            if object.space() == "shared" && !access.generic {
                let narrow = self.fresh("r");
                self.put(format!("mov.u32 {narrow}, {name};"));
                return (narrow, true);
            }
            self.put(format!("mov.u64 {pointer}, {name};"));
            if object.space() == "local" {
                let start = local_at(self.kernel, object);
                self.put(format!("add.u64 {pointer}, {pointer}, {start};"));
            }
            if access.generic {
                self.put(format!("cvta.{}.u64 {pointer}, {pointer};", object.space()));
            }
            return (pointer, false);
        }
        let own = format!("p{}", slot(object));
        match access.root {
            Root::Direct | Root::Function => self.put(format!("ld.param.u64 {pointer}, [{own}];")),
            Root::Struct => self.put(format!(
                "ld.param.u64 {pointer}, [pointers+{}];",
                slot(object) * 8
            )),
            Root::Table => {
                let table = self.fresh("rd");
                self.put(format!("ld.param.u64 {table}, [table];"));
                self.put(format!("cvta.to.global.u64 {table}, {table};"));
                self.put(format!(
                    "ld.global.u64 {pointer}, [{table}+{}];",
                    slot(object) * 8
                ))
            }
            Root::ThroughShared => {
                let (given, mail, wide) = (self.fresh("rd"), self.fresh("rd"), self.fresh("rd"));
                self.put(format!("ld.param.u64 {given}, [{own}];"));
                self.put(format!("mul.wide.u32 {wide}, %tid, 8;"));
                self.put(format!("mov.u64 {mail}, mail;"));
                self.put(format!("add.s64 {mail}, {mail}, {wide};"));
                self.put(format!("st.shared.u64 [{mail}], {given};"));
                self.put(format!("ld.shared.u64 {pointer}, [{mail}];"))
            }
            Root::Selected => {
                let (even, odd, bit, which) = (
                    self.fresh("rd"),
                    self.fresh("rd"),
                    self.fresh("r"),
                    self.fresh("p"),
                );
                self.put(format!("ld.param.u64 {even}, [p0];"));
                self.put(format!("ld.param.u64 {odd}, [p1];"));
                self.put(format!("and.b32 {bit}, %number, 1;"));
                self.put(format!("setp.eq.u32 {which}, {bit}, 1;"));
                self.put(format!("selp.b64 {pointer}, {odd}, {even}, {which};"))
            }
        };
        if !access.generic && access.root != Root::Function {
            self.put(format!("cvta.to.global.u64 {pointer}, {pointer};"));
        }
        (pointer, false)
    }

    fn sum(&mut self, pointer: &str, offset: &str, narrow: bool) -> String {
        if narrow {
            let (low, address) = (self.fresh("r"), self.fresh("r"));
            self.put(format!("cvt.u32.u64 {low}, {offset};"));
            self.put(format!("add.s32 {address}, {pointer}, {low};"));
            return address;
        }
        let address = self.fresh("rd");
        self.put(format!("add.s64 {address}, {pointer}, {offset};"));
        address
    }

    /// The access itself, and its second.
    #[expect(
        clippy::too_many_arguments,
        reason = "to be replaced by one value for the operands"
    )]
    fn instructions(
        &mut self,
        index: usize,
        access: &Access,
        prefix: &str,
        address: &str,
        pointer: &str,
        offset: &str,
    ) {
        if access.root == Root::Function {
            self.call(index, access, pointer, offset);
            return;
        }
        let fixed = if self.folds(access) {
            access.constant
        } else {
            0
        };
        for (which, distance) in std::iter::once(0).chain(access.second).enumerate() {
            let place = match fixed + distance {
                0 => format!("[{address}]"),
                at => format!("[{address}+{at}]"),
            };
            let line = self.instruction(access, prefix, &place);
            self.lines.insert((index, which), line);
        }
    }

    fn instruction(&mut self, access: &Access, prefix: &str, place: &str) -> u32 {
        let space = if access.generic {
            String::new()
        } else {
            format!(".{}", access.object.space())
        };
        let vector = if access.lanes > 1 {
            format!(".v{}", access.lanes)
        } else {
            String::new()
        };
        let bits = access.element * 8;
        let list = |registers: &[String]| match registers {
            [one] => one.clone(),
            several => format!("{{{}}}", several.join(", ")),
        };
        match access.object.action() {
            Action::Atomic => self.put(format!("{prefix}red{space}.add.u32 {place}, 1;")),
            Action::Write => {
                let value = if access.element == 8 {
                    "%fill64"
                } else {
                    "%fill32"
                };
                let values = list(&vec![value.to_owned(); access.lanes as usize]);
                self.put(format!(
                    "{prefix}st{space}{vector}.u{bits} {place}, {values};"
                ))
            }
            Action::Read => {
                let family = if access.element == 8 { "rd" } else { "r" };
                let values: Vec<String> = (0..access.lanes).map(|_| self.fresh(family)).collect();
                let line = self.put(format!(
                    "{prefix}ld{space}{vector}.u{bits} {}, {place};",
                    list(&values)
                ));
                for value in values {
                    self.add_up(prefix, &value, access.element == 8);
                }
                line
            }
        }
    }

    fn add_up(&mut self, prefix: &str, value: &str, wide: bool) {
        self.put(format!("{prefix}mul.lo.u32 %sum, %sum, 31;"));
        if !wide {
            self.put(format!("{prefix}add.u32 %sum, %sum, {value};"));
            return;
        }
        let (low, high) = (self.fresh("r"), self.fresh("r"));
        self.put(format!("mov.b64 {{{low}, {high}}}, {value};"));
        self.put(format!("{prefix}add.u32 %sum, %sum, {low};"));
        self.put(format!("{prefix}add.u32 %sum, %sum, {high};"));
    }

    fn call(&mut self, index: usize, access: &Access, pointer: &str, offset: &str) {
        let name = match access.object.action() {
            Action::Read => "read_at",
            Action::Write => "write_at",
            Action::Atomic => "add_at",
        };
        self.lines.insert((index, 0), self.functions[name]);
        let value = self.fresh("r");
        for line in [
            "{",
            ".param .b64 a; .param .b64 b; .param .b32 c; .param .b32 back;",
            &format!("st.param.b64 [a], {pointer};"),
            &format!("st.param.b64 [b], {offset};"),
            "st.param.b32 [c], %fill32;",
            &format!("call (back), {name}, (a, b, c);"),
            &format!("ld.param.b32 {value}, [back];"),
            "}",
        ] {
            self.put(line);
        }
        if access.object.action() == Action::Read {
            self.add_up("", &value, false);
        }
    }
}
