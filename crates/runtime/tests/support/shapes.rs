//! Shapes of index arithmetic that compilers write, for kernels made at random:
//! remainders, differences below comparisons, addresses that walk beside a
//! counter, counters that double, start again, or are the ends of a range.

use super::Kernel;

/// What a loop moves beside its counter.
pub(super) enum Walker {
    /// An address in the buffer, in this wide register.
    Global(u32),
    /// An address in shared memory, in this register.
    Shared(u32),
}

impl Kernel {
    /// Index arithmetic of several instructions.
    pub(super) fn shape(&mut self) {
        let a = self.value();
        let b = self.value();
        let [x, y, to] = std::array::from_fn(|_| self.register());
        let sign = self.random.of(&["s32", "u32"]);
        match self.random.below(6) {
            0 | 1 => {
                // A remainder, and what lies in a row of so many.
                self.line(format_args!("div.{sign} %r{x}, %r{a}, %r{b};"));
                self.line(format_args!("mul.lo.s32 %r{y}, %r{x}, %r{b};"));
                self.line(format_args!("sub.s32 %r{to}, %r{a}, %r{y};"));
                let [next, closed, whole] = std::array::from_fn(|_| self.register());
                self.line(format_args!("add.s32 %r{next}, %r{to}, 1;"));
                self.line(format_args!("rem.{sign} %r{closed}, %r{next}, %r{b};"));
                self.line(format_args!("add.s32 %r{whole}, %r{y}, %r{closed};"));
                self.values.extend([to, closed, whole]);
            }
            2 => {
                let by = self.random.of(&[3, 8, 10, 16]);
                let times = self.random.of(&[by, by, by - 1]);
                self.line(format_args!("div.{sign} %r{x}, %r{a}, {by};"));
                self.line(format_args!("mul.lo.s32 %r{y}, %r{x}, {times};"));
                self.line(format_args!("sub.s32 %r{to}, %r{a}, %r{y};"));
                self.values.push(to);
            }
            3 => {
                // Without some bits.
                self.line(format_args!("and.b32 %r{x}, %r{a}, %r{b};"));
                self.line(format_args!("sub.s32 %r{to}, %r{a}, %r{x};"));
                self.values.extend([x, to]);
            }
            _ => self.compared(a, b, [x, to]),
        }
    }

    /// A difference below a comparison, or a comparison of both at once.
    fn compared(&mut self, a: u32, b: u32, [x, to]: [u32; 2]) {
        let (k, label, p) = (self.kernel, self.label(), self.predicate());
        let sign = self.random.of(&["s32", "u32"]);
        let relation = self.random.of(&["lt", "le", "gt", "ge", "eq", "ne"]);
        match self.random.below(3) {
            0 => {
                let both = self.random.of(&["or.b32", "max.s32", "max.u32", "min.u32"]);
                let limit = self.random.of(&["0", "0", "16", "-1", "%r0"]);
                self.line(format_args!("{both} %r{x}, %r{a}, %r{b};"));
                self.line(format_args!(
                    "setp.{relation}.{sign} %p{p}, %r{x}, {limit};"
                ));
            }
            _ => self.line(format_args!("setp.{relation}.{sign} %p{p}, %r{a}, %r{b};")),
        }
        self.line(format_args!("sub.s32 %r{to}, %r{a}, %r{b};"));
        self.line(format_args!("@%p{p} bra $far{k}_{label};"));
        let values = self.values.clone();
        self.values.extend([to, to, a]);
        self.access();
        self.values = values;
        self.line(format_args!("$far{k}_{label}:"));
    }

    /// An address that starts with a counter, before a loop.
    pub(super) fn walker(&mut self, counter: u32) -> Option<Walker> {
        let from = self.random.of(&[counter, counter, counter, 2]);
        match self.random.below(5) {
            0 | 1 => {
                let [offset, address] = [self.wide, self.wide + 1];
                self.wide += 2;
                let sign = self.random.of(&["s32", "s32", "u32"]);
                self.line(format_args!("mul.wide.{sign} %rd{offset}, %r{from}, 4;"));
                self.line(format_args!("add.s64 %rd{address}, %rd1, %rd{offset};"));
                Some(Walker::Global(address))
            }
            2 => {
                let [offset, address] = std::array::from_fn(|_| self.register());
                let k = self.kernel;
                self.line(format_args!("shl.b32 %r{offset}, %r{from}, 2;"));
                self.line(format_args!("mov.u32 %r{address}, k{k}_s;"));
                self.line(format_args!(
                    "add.s32 %r{address}, %r{address}, %r{offset};"
                ));
                Some(Walker::Shared(address))
            }
            _ => None,
        }
    }

    /// An access where a walker is.
    pub(super) fn walks(&mut self, walker: &Walker) {
        let zero = self.register();
        self.line(format_args!("mov.u32 %r{zero}, 0;"));
        match walker {
            Walker::Global(address) => {
                self.line(format_args!("st.global.u8 [%rd{address}], %r{zero};"));
            }
            Walker::Shared(address) => {
                self.line(format_args!("st.shared.u32 [%r{address}], %r{zero};"));
            }
        }
        self.accesses += 1;
    }

    /// Moves a walker by a step of the counter, or by another.
    pub(super) fn walk(&mut self, walker: &Walker, step: &str) {
        let step = self.random.of(&[step, step, step, step, "1", "-1"]);
        match *walker {
            Walker::Global(address) => {
                let offset = self.wide;
                self.wide += 1;
                let from = self.register();
                self.line(format_args!("mov.u32 %r{from}, {step};"));
                self.line(format_args!("mul.wide.s32 %rd{offset}, %r{from}, 4;"));
                self.line(format_args!(
                    "add.s64 %rd{address}, %rd{address}, %rd{offset};"
                ));
            }
            Walker::Shared(address) => {
                let offset = self.register();
                self.line(format_args!("shl.b32 %r{offset}, {step}, 2;"));
                self.line(format_args!(
                    "add.s32 %r{address}, %r{address}, %r{offset};"
                ));
            }
        }
    }

    /// Moves a counter in a way that is no step.
    pub(super) fn carried(&mut self, counter: u32) {
        let by = self.operand();
        let [next, p] = [self.register(), self.predicate()];
        match self.random.below(5) {
            0 => self.line(format_args!("shr.u32 %r{counter}, %r{counter}, 1;")),
            1 => self.line(format_args!("shl.b32 %r{counter}, %r{counter}, 1;")),
            2 => {
                self.line(format_args!("add.s32 %r{next}, %r{counter}, 1;"));
                self.line(format_args!("rem.u32 %r{counter}, %r{next}, {by};"));
            }
            3 => {
                self.line(format_args!("add.s32 %r{next}, %r{counter}, 3;"));
                self.line(format_args!("setp.lt.u32 %p{p}, %r{next}, {by};"));
                self.line(format_args!("selp.b32 %r{counter}, %r{next}, 1, %p{p};"));
            }
            _ => {
                // One end of a range, in the middle of which the counter goes
                // on.
                let other = self.value();
                self.line(format_args!("add.s32 %r{next}, %r{counter}, %r{other};"));
                self.line(format_args!("shr.u32 %r{counter}, %r{next}, 1;"));
            }
        }
    }
}
