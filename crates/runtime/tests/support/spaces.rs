//! Accesses to all spaces for kernels made at random: arrays in shared, local, constant
//! and parameter memory and variables of the module, by addresses of their space and by
//! generic ones, of which some may be one or the other.

use super::Kernel;
use std::fmt::Write;

/// Bytes of each array.
pub const ARRAY: u32 = 400;

/// Bytes of the parameter that is an array.
pub const PARAMETER: u32 = 64;

/// Where an array lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Shared,
    /// Shared memory of which the launch says how much there is.
    Dynamic,
    Local,
    Constant,
    Parameter,
    /// A variable of the module.
    Variable,
}

impl Space {
    /// As it is written in an instruction.
    fn name(self) -> &'static str {
        match self {
            Space::Shared | Space::Dynamic => "shared",
            Space::Local => "local",
            Space::Constant => "const",
            Space::Parameter => "param",
            Space::Variable => "global",
        }
    }

    /// The array of a kernel.
    fn array(self, kernel: u32) -> String {
        match self {
            Space::Shared => format!("k{kernel}_s"),
            Space::Dynamic => "dynamic".into(),
            Space::Local => format!("k{kernel}_l"),
            Space::Constant => "constants".into(),
            Space::Parameter => format!("k{kernel}_q"),
            Space::Variable => format!("k{kernel}_g"),
        }
    }

    fn is_written(self) -> bool {
        !matches!(self, Space::Constant | Space::Parameter)
    }
}

/// What all kernels share: a module has little constant memory.
pub fn declarations() -> String {
    let words: Vec<String> = (0..ARRAY / 4)
        .map(|word| (word * 37 % 101).to_string())
        .collect();
    format!(
        ".extern .shared .align 16 .b8 dynamic[];\n.const .align 4 .u32 constants[{}] = {{{}}};\n",
        words.len(),
        words.join(", ")
    )
}

/// The variables of a kernel.
pub(super) fn variables(kernel: u32) -> String {
    format!(".global .align 4 .b8 k{kernel}_g[{ARRAY}];\n")
}

impl Kernel {
    /// Gives arrays their values, so that all copies of the kernel read the same; some
    /// kernels use none.
    pub(super) fn arrays(&mut self) {
        let uses = [Space::Shared, Space::Local, Space::Variable, Space::Dynamic];
        for space in uses {
            if self.random.below(3) != 0 {
                continue;
            }
            self.used.push(space);
            let (k, label) = (self.kernel, self.label());
            let [counter, address, limit] = std::array::from_fn(|_| self.register());
            let p = self.predicate();
            self.line(format_args!("mov.u32 %r{counter}, 0;"));
            match space {
                Space::Dynamic => {
                    self.line(format_args!("mov.u32 %r{limit}, %dynamic_smem_size;"));
                }
                _ => self.line(format_args!("mov.u32 %r{limit}, {ARRAY};")),
            }
            self.line(format_args!("$fill{k}_{label}:"));
            self.line(format_args!("setp.ge.u32 %p{p}, %r{counter}, %r{limit};"));
            self.line(format_args!("@%p{p} bra $filled{k}_{label};"));
            let array = space.array(k);
            if space == Space::Variable {
                let [base, offset] = [self.wide, self.wide + 1];
                self.wide += 2;
                self.line(format_args!("mov.u64 %rd{base}, {array};"));
                self.line(format_args!("cvt.u64.u32 %rd{offset}, %r{counter};"));
                self.line(format_args!("add.s64 %rd{base}, %rd{base}, %rd{offset};"));
                self.line(format_args!("st.global.u32 [%rd{base}], %r{counter};"));
            } else {
                self.line(format_args!("mov.u32 %r{address}, {array};"));
                self.line(format_args!(
                    "add.s32 %r{address}, %r{address}, %r{counter};"
                ));
                let name = space.name();
                self.line(format_args!("st.{name}.u32 [%r{address}], %r{counter};"));
            }
            self.line(format_args!("add.s32 %r{counter}, %r{counter}, 4;"));
            self.line(format_args!("bra $fill{k}_{label};"));
            self.line(format_args!("$filled{k}_{label}:"));
        }
        self.used.extend([Space::Constant, Space::Parameter]);
    }

    /// An access to an array that is not the buffer.
    pub(super) fn access_array(&mut self) {
        let used = self.used.clone();
        let space = self.random.of(&used);
        let index = self.value();
        let scale = self.random.of(&[1, 4, 4, 4, 8]);
        let constant = self.random.of(&[0, 0, 0, 4, -4, 12]);
        let is_generic = self.random.below(3) == 0 && space != Space::Parameter;
        let is_far = matches!(space, Space::Variable | Space::Constant);
        let is_wide = is_generic || is_far || self.random.below(3) == 0;
        let array = space.array(self.kernel);
        if !is_wide {
            let [base, address] = std::array::from_fn(|_| self.register());
            self.line(format_args!("mov.u32 %r{base}, {array};"));
            if self.random.below(2) == 0 {
                self.line(format_args!(
                    "mad.lo.s32 %r{address}, %r{index}, {scale}, %r{base};"
                ));
            } else {
                let scaled = self.register();
                self.line(format_args!("shl.b32 %r{scaled}, %r{index}, 2;"));
                self.line(format_args!("add.s32 %r{address}, %r{scaled}, %r{base};"));
            }
            return self.move_at(space, space.name(), &format!("%r{address}+{constant}"));
        }
        let [base, offset, address] = [self.wide, self.wide + 1, self.wide + 2];
        self.wide += 3;
        self.line(format_args!("mov.u64 %rd{base}, {array};"));
        if is_generic {
            let name = space.name();
            self.line(format_args!("cvta.{name}.u64 %rd{base}, %rd{base};"));
            if self.random.below(4) == 0 {
                // Of the buffer, at times.
                let p = self.comparison();
                self.line(format_args!("selp.b64 %rd{base}, %rd{base}, %rd0, %p{p};"));
            }
        }
        let sign = self.random.of(&["s32", "u32"]);
        self.line(format_args!(
            "mul.wide.{sign} %rd{offset}, %r{index}, {scale};"
        ));
        self.line(format_args!(
            "add.s64 %rd{address}, %rd{base}, %rd{offset};"
        ));
        let name = if is_generic { "" } else { space.name() };
        self.move_at(space, name, &format!("%rd{address}+{constant}"));
    }

    /// A load or a store.
    fn move_at(&mut self, space: Space, name: &str, address: &str) {
        let mut space_name = String::new();
        if !name.is_empty() {
            let _ = write!(space_name, ".{name}");
        }
        let kind = self.random.of(&["u8", "u32", "u32", "s16"]);
        if space.is_written() && self.random.below(2) == 0 {
            let value = self.value();
            self.line(format_args!(
                "st{space_name}.{kind} [{address}], %r{value};"
            ));
        } else {
            let to = self.register();
            self.line(format_args!("ld{space_name}.{kind} %r{to}, [{address}];"));
            self.values.push(to);
        }
        self.accesses += 1;
    }
}
