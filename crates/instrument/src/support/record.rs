//! The code that writes a record of a failed check into the ring. It stands
//! inline where threads leave: a call would cost the kernel registers and a
//! frame even where no check fails. A trap after a check calls a function with
//! the same code instead, because it stands at every check.

use super::has_isspacep_param;
use crate::patch::line;
use model::layout as l;
use std::fmt::Display;
use std::mem::offset_of;

/// What the code depends on in a module.
pub(crate) struct RecordCode {
    tag: u64,
    /// Windows in which the base of an object may lie, with their bits.
    windows: Vec<(&'static str, u32)>,
    /// The module may use `st.release`.
    releases: bool,
}

/// Registers that the code overwrites.
pub(crate) struct Scratch<'x> {
    /// Of 64 bits: the record's number, its address, and another.
    pub(crate) wide: [&'x dyn Display; 3],
    /// Of 32 bits.
    pub(crate) narrow: [&'x dyn Display; 2],
    /// The ring is full; the base is in a window.
    pub(crate) predicates: [&'x dyn Display; 2],
}

/// The values of a record.
pub(crate) struct Values<'x> {
    pub(crate) site: &'x dyn Display,
    pub(crate) address: &'x dyn Display,
    /// Base and size; none if the host knows them.
    pub(crate) bounds: Option<(&'x dyn Display, &'x dyn Display)>,
    /// The parameter that begins with the launch's number; none if the number
    /// is unknown.
    pub(crate) launch: Option<&'x str>,
    /// The thread ends here, though the program did not say so.
    pub(crate) ends: bool,
}

impl RecordCode {
    pub(crate) fn of(module: &ptx::Module<'_>, tag: u64) -> Self {
        let mut windows = vec![
            ("shared", l::WINDOW_SHARED),
            ("local", l::WINDOW_LOCAL),
            ("const", l::WINDOW_CONSTANT),
        ];
        if has_isspacep_param(module) {
            windows.push(("param", l::WINDOW_PARAMETER));
        }
        RecordCode {
            tag,
            windows,
            releases: module.architecture() >= 70,
        }
    }

    /// Writes the code. If the ring is full, it jumps to `full`.
    pub(crate) fn write(
        &self,
        scratch: &Scratch<'_>,
        values: &Values<'_>,
        full: &dyn Display,
        out: &mut String,
    ) {
        let Scratch {
            wide: [number, slot, other],
            narrow,
            predicates: [is_full, is_inside],
        } = scratch;
        line!(out, "mov.b64 {slot}, {};", l::RING_HEAD);
        line!(out, "atom.global.add.u64 {number}, [{slot}], 1;");
        line!(out, "mov.b64 {slot}, {};", l::RING_TAIL);
        line!(out, "ld.volatile.global.u64 {other}, [{slot}];");
        line!(out, "sub.s64 {other}, {number}, {other};");
        line!(out, "setp.ge.u64 {is_full}, {other}, {};", l::RING_CAPACITY);
        line!(out, "@{is_full} bra {full};");
        line!(out, "and.b64 {slot}, {number}, {};", l::RING_CAPACITY - 1);
        let shift = size_of::<l::Record>().trailing_zeros();
        line!(out, "shl.b64 {slot}, {slot}, {shift};");
        line!(out, "add.s64 {slot}, {slot}, {};", l::RING_RECORDS);
        let wide = |at: usize, value: &dyn Display, out: &mut String| {
            line!(out, "st.global.b64 [{slot}+{at}], {value};");
        };
        line!(out, "mov.b64 {other}, {};", self.tag);
        wide(offset_of!(l::Record, module), other, out);
        wide(offset_of!(l::Record, address), values.address, out);
        let (base, size) = values.bounds.unwrap_or((&0, &0));
        wide(offset_of!(l::Record, base), base, out);
        wide(offset_of!(l::Record, size), size, out);
        match values.launch {
            Some(parameter) => line!(out, "ld.param.b64 {other}, [{parameter}];"),
            None => line!(out, "mov.b64 {other}, 0;"),
        }
        wide(offset_of!(l::Record, launch), other, out);
        self.write_place((slot, *narrow), values, is_inside, out);
        line!(out, "add.s64 {number}, {number}, 1;");
        // The record must be whole before its number can be seen.
        if self.releases {
            line!(out, "st.release.sys.global.u64 [{slot}], {number};");
        } else {
            // Under a guard that always holds: the verifier distinguishes check code
            // from the program's by its names.
            line!(out, "@!{is_full} membar.sys;");
            line!(out, "st.volatile.global.u64 [{slot}], {number};");
        }
    }

    /// The site, the window, the thread and the block.
    fn write_place(
        &self,
        (slot, [word, part]): (&dyn Display, [&dyn Display; 2]),
        values: &Values<'_>,
        is_inside: &dyn Display,
        out: &mut String,
    ) {
        let narrow = |at: usize, value: &dyn Display, out: &mut String| {
            line!(out, "st.global.b32 [{slot}+{at}], {value};");
        };
        let with = |register: &str, shift: u32, out: &mut String| {
            line!(out, "mov.u32 {part}, {register};");
            line!(out, "shl.b32 {part}, {part}, {shift};");
            line!(out, "or.b32 {word}, {word}, {part};");
        };
        narrow(offset_of!(l::Record, site), values.site, out);
        line!(out, "mov.u32 {word}, %tid.x;");
        with("%tid.y", 10, out);
        with("%tid.z", 20, out);
        // Without bounds there is no base that could lie in a window.
        if let Some((base, _)) = values.bounds {
            for (space, window) in &self.windows {
                line!(out, "isspacep.{space} {is_inside}, {base};");
                let bits = window << l::WINDOW_SHIFT;
                line!(out, "selp.b32 {part}, {bits}, 0, {is_inside};");
                line!(out, "or.b32 {word}, {word}, {part};");
            }
        }
        if values.ends {
            line!(out, "or.b32 {word}, {word}, {};", l::ENDED);
        }
        narrow(offset_of!(l::Record, thread), word, out);
        line!(out, "mov.u32 {word}, %ctaid.x;");
        narrow(offset_of!(l::Record, block_x), word, out);
        line!(out, "mov.u32 {word}, %ctaid.y;");
        with("%ctaid.z", 16, out);
        narrow(offset_of!(l::Record, block_yz), word, out);
    }
}
