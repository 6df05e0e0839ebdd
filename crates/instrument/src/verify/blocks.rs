//! Checks against shadow memory. Each has one form for the number of blocks that
//! it may touch; the text is built here independently, and read word by word.
//!
//! In the form for one block, bytes in the next one are never let pass: the
//! offset of the last byte is then larger than any value. So it cannot miss
//! anything, but it would report legal accesses if they could lie in two
//! blocks: [`Blocks::fits`].

use super::checks::{Input, State, Text, is_shared_limit};
use super::verdicts::{Count, Distance};
use super::written::{call_of_lookup, number, only_under, operand, reads, root};
use crate::protocol::family::{KEPT, ROOT_BASE};
use crate::protocol::register::{
    BYTE, BYTE2, COVERED, FAR, FIRST_UNIT, HIGH, LAST, LOW, OFFSET, OTHER, OUTSIDE, PLACED_UNIT,
    PLACED_UNITS, POISONED, SCRATCH, UNIT, UNITS, WEAK_BASE, WEAK_SIZE,
};
use crate::protocol::{BLOCKS, LABEL_PREFIX, NAME_PREFIX};
use analysis::{Root, RootId};
use model::layout::LAUNCH_PARAMETER;
use model::layout::heap::{HEAP_BASE, HEAP_RESERVED};
use model::layout::placed::PLACED_BASE;
use model::layout::shadow::{Encoding, LAUNCH_WINDOW, SHADOW_BASE, SHADOW_WINDOW, UNIT_SHIFT};

/// How many blocks a verdict is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocks {
    One,
    Two,
    Many,
}

impl Blocks {
    /// Whether so many bytes from an offset on, of an address that is aligned
    /// at another offset, lie in as many blocks.
    pub(super) fn fits(
        self,
        encoding: Encoding,
        low: i64,
        bytes: u64,
        aligned: (u64, i64),
    ) -> bool {
        let (alignment, at) = aligned;
        let alignment = alignment.min(encoding.block());
        let first = low.wrapping_sub(at) as u64 % alignment;
        match self {
            Blocks::One => first.saturating_add(bytes) <= alignment,
            Blocks::Two => first.saturating_add(bytes) <= alignment + encoding.block(),
            Blocks::Many => true,
        }
    }
}

/// Whether the last of so many bytes may be the first one of a block, of an
/// address that is aligned at another offset.
fn may_end_first(encoding: Encoding, low: i64, bytes: u64, (alignment, at): (u64, i64)) -> bool {
    let last = low.wrapping_sub(at).wrapping_add_unsigned(bytes - 1) as u64;
    last.is_multiple_of(alignment.min(encoding.block()))
}

/// Reads whether bytes of live buffers are poisoned, behind the window.
pub(super) fn poisoned(launch: Option<u64>) -> String {
    match launch {
        Some(bytes) => format!(
            "ld.param.b32 {POISONED}, [{LAUNCH_PARAMETER}+{}];",
            bytes.wrapping_sub(LAUNCH_WINDOW - 12)
        ),
        None => format!("ld.global.b32 {POISONED}, [{SCRATCH}+12];"),
    }
}

/// Reads which units are covered, at the top of a body.
pub(super) fn window() -> String {
    format!(
        "mov.b64 {SCRATCH}, {SHADOW_WINDOW}; ld.global.b32 {FIRST_UNIT}, [{SCRATCH}+0]; \
         ld.global.b32 {UNITS}, [{SCRATCH}+4]; ld.global.b32 {PLACED_UNITS}, [{SCRATCH}+8];"
    )
}

/// The same, from the end of the launch parameter, which has so many bytes.
pub(super) fn window_of_launch(bytes: u64) -> String {
    format!(
        "ld.param.b32 {FIRST_UNIT}, [{LAUNCH_PARAMETER}+{}]; ld.param.b32 {UNITS}, [{LAUNCH_PARAMETER}+{}]; \
         ld.param.b32 {PLACED_UNITS}, [{LAUNCH_PARAMETER}+{}];",
        bytes.wrapping_sub(LAUNCH_WINDOW),
        bytes.wrapping_sub(LAUNCH_WINDOW - 4),
        bytes.wrapping_sub(LAUNCH_WINDOW - 8)
    )
}

/// Loads the shadow byte of an address, or `none` where there is none; and that of
/// the next block, or 0.
fn load(encoding: Encoding, address: &str, has_two: bool) -> String {
    let none = match has_two {
        true => 2 * encoding.block(),
        false => encoding.whole().into(),
    };
    // Bytes 2 to 5 of an address are its unit; and the base has a byte to add to
    // the shifted upper half.
    let shifted = match encoding {
        Encoding::Block256 => format!(
            "prmt.b32 {UNIT}, {LOW}, {HIGH}, {}; prmt.b32 {HIGH}, {HIGH}, {}, {};",
            0x4321,
            SHADOW_BASE >> 32,
            0x7651
        ),
        Encoding::Block8 | Encoding::Block128 => {
            let shift = encoding.shift();
            format!(
                "and.b32 {HIGH}, {HIGH}, 65535; shf.r.wrap.b32 {UNIT}, {LOW}, {HIGH}, {shift}; \
                 shr.u32 {HIGH}, {HIGH}, {shift}; add.s32 {HIGH}, {HIGH}, {};",
                SHADOW_BASE >> 32
            )
        }
    };
    let next = match has_two {
        true => format!("mov.b32 {BYTE2}, 0; @{COVERED} ld.global.u8 {BYTE2}, [{SCRATCH}+1];"),
        false => String::new(),
    };
    format!(
        "mov.b64 {{{LOW}, {HIGH}}}, {address}; prmt.b32 {UNIT}, {LOW}, {HIGH}, {}; \
         sub.s32 {PLACED_UNIT}, {UNIT}, {}; \
         sub.s32 {UNIT}, {UNIT}, {FIRST_UNIT}; setp.lt.u32 {COVERED}, {UNIT}, {UNITS}; \
         setp.lt.or.u32 {COVERED}, {PLACED_UNIT}, {PLACED_UNITS}, {COVERED}; {shifted} \
         mov.b64 {SCRATCH}, {{{UNIT}, {HIGH}}}; mov.b32 {BYTE}, {none}; \
         @{COVERED} ld.global.u8 {BYTE}, [{SCRATCH}]; {next} ",
        0x5432,
        PLACED_BASE >> UNIT_SHIFT,
    )
}

/// Looks up the last byte of an access where it may be the only one of its block.
fn single(first: &str, less: u64, label: &str) -> String {
    format!(
        "and.b32 {UNIT}, {LAST}, 255; setp.ne.u32 {COVERED}, {UNIT}, 0; @{COVERED} bra {label}; \
         add.s32 {LAST}, {LAST}, 1; setp.ge.u32 {COVERED}, {BYTE}, {LAST}; @{COVERED} bra {label}; \
         add.s64 {SCRATCH}, {first}, {less}; {} \
         sub.s64 {SCRATCH}, {SCRATCH}, {WEAK_BASE}; setp.lt.u64 {COVERED}, {SCRATCH}, {WEAK_SIZE}; \
         @{COVERED} add.s32 {BYTE}, {BYTE}, 1; {label}: ",
        call_of_lookup(SCRATCH)
    )
}

/// A check as it was read.
struct Read {
    pointer: Text,
    low: i64,
    less: u64,
    count: Option<Count>,
    blocks: Blocks,
    /// A byte that is alone in its block is looked up.
    asks: bool,
    predicate: Text,
    /// The guard that the comparison is under.
    guard: Option<Text>,
    end: u32,
}

/// A comparison with the bounds of a parameter's buffer as it was read, and the jump over
/// the check behind it.
struct Near {
    pointer: Text,
    low: i64,
    less: u64,
    predicate: Text,
    guard: Option<Text>,
    label: Text,
    end: u32,
}

impl Near {
    /// Reads the jump over the check.
    fn jumps(mut self, text: &str) -> Option<Near> {
        let after = reads(text, self.end, format_args!("@!{} bra", self.predicate))?;
        operand(text, after).clone_into(&mut self.label);
        self.end = reads(text, after, format_args!("{};", self.label))?;
        self.label.starts_with(LABEL_PREFIX).then_some(self)
    }
}

impl State {
    /// Reads a check; where it ends.
    pub(super) fn shadow_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let encoding = input.shadow.filter(|_| self.roots.is_set(FIRST_UNIT))?;
        let near = self.near(at, input);
        if let Some(near) = &near
            && let Some(end) = self.noted(near, input.new)
        {
            return Some(end);
        }
        let near = near.and_then(|near| near.jumps(input.new));
        let from = near.as_ref().map_or(at, |near| near.end);
        let mut read = self
            .many(from, input)
            .or_else(|| in_line((encoding, input.has_heap), from, input.new))?;
        if let Some(near) = near {
            self.ends_near(&near, &mut read, input.new)?;
        }
        let is_verdict = read.predicate == OUTSIDE || number(&read.predicate, KEPT).is_some();
        if !is_verdict {
            return None;
        }
        let guard = read.guard.as_deref();
        self.begin_check((&read.pointer, read.low), &read.predicate, read.less, guard);
        if let Some(verdict) = self.verdicts.get_mut(&read.predicate) {
            verdict.blocks = Some((read.blocks, read.asks));
            verdict.count = read.count.map(|count| (count, 3));
        }
        Some(read.end)
    }

    /// Reads a comparison that says that an access is made, and does not lie in the buffer
    /// of a pointer parameter; of which one does not matter.
    fn near(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<Near> {
        let text = input.new;
        let after = reads(text, at, format_args!("sub.s64 {OFFSET},"))?;
        let pointer = operand(text, after).to_owned();
        let after = reads(text, after, format_args!("{pointer},"))?;
        let base = operand(text, after).to_owned();
        let mut from = reads(text, after, format_args!("{base};"))?;
        let mut low = 0;
        if let Some(after) = reads(text, from, format_args!("add.s64 {OFFSET}, {OFFSET},")) {
            low = operand(text, after).parse().ok()?;
            from = reads(text, after, format_args!("{low};"))?;
        }
        let (after, is_guarded) = match reads(text, from, "setp.ge.u64") {
            Some(after) => (after, false),
            None => (reads(text, from, "setp.ge.and.u64")?, true),
        };
        let predicate = operand(text, after).to_owned();
        let after = reads(text, after, format_args!("{predicate}, {OFFSET},"))?;
        let limit = operand(text, after).to_owned();
        let (after, guard) = match is_guarded {
            true => {
                let after = reads(text, after, format_args!("{limit},"))?;
                let guard = operand(text, after).to_owned();
                (reads(text, after, format_args!("{guard};"))?, Some(guard))
            }
            false => (reads(text, after, format_args!("{limit};"))?, None),
        };
        let less = self.less_of((&base, &limit), input)?;
        Some(Near {
            pointer,
            low,
            less,
            predicate,
            guard,
            label: Text::new(),
            end: after,
        })
    }

    /// Reads that a comparison is noted, in place of a check.
    fn noted(&mut self, near: &Near, text: &str) -> Option<u32> {
        let predicate = &near.predicate;
        let end = reads(
            text,
            near.end,
            format_args!("or.pred {FAR}, {FAR}, {predicate};"),
        )?;
        let is_verdict = predicate == OUTSIDE || number(predicate, KEPT).is_some();
        if !is_verdict || !self.twice.is_first() {
            return None;
        }
        self.begin_check(
            (&near.pointer, near.low),
            predicate,
            near.less,
            near.guard.as_deref(),
        );
        self.unsited.remove(predicate);
        if let Some(verdict) = self.verdicts.get_mut(predicate) {
            verdict.is_noted = true;
        }
        Some(end)
    }

    /// Begins a verdict on so many bytes, and one more, under a guard of the program.
    fn begin_check(
        &mut self,
        (pointer, low): (&Text, i64),
        predicate: &str,
        less: u64,
        guard: Option<&str>,
    ) {
        let pointer = match self.symbols.contains_key(pointer) {
            true => pointer.clone(),
            false => self.resolve(pointer),
        };
        let guards = guard.map(|guard| match guard.strip_prefix('!') {
            Some(register) => format!("!{}", self.resolve(register)),
            None => self.resolve(guard),
        });
        self.distance = Some(Distance {
            pointer,
            low,
            ..Distance::default()
        });
        self.begin(predicate, Text::new(), less, guards.into_iter().collect());
    }

    /// Bytes that follow the first one of an access whose offset from the base of a
    /// parameter's buffer is below a limit, all of which then are in the buffer.
    pub(super) fn less_of(
        &mut self,
        (base, limit): (&str, &str),
        input: &Input<'_, '_, '_>,
    ) -> Option<u64> {
        let id = RootId(number(base, ROOT_BASE)?);
        let kind = input.analysis.provenance.root(id)?;
        let is_passed = input.launch.is_some() && input.analysis.code.function.is_entry;
        if !is_passed || !matches!(kind, Root::KernelParameter { .. }) {
            return None;
        }
        let own = root(id.0).1;
        let less = match self.limits.get(limit).filter(|_| is_shared_limit(limit)) {
            Some((size, less)) if *size == own => *less,
            None if limit == own => 0,
            _ => return None,
        };
        self.roots.used.insert(id.0);
        Some(less)
    }

    /// Reads the end of a check that is jumped over, which must be about the same bytes
    /// under the same guard.
    fn ends_near(&self, near: &Near, read: &mut Read, text: &str) -> Option<()> {
        if read.blocks == Blocks::Many
            && let Some(guard) = &near.guard
        {
            let under = only_under(&read.predicate, &format!("@{guard}"));
            read.end = reads(text, read.end, under)?;
            read.guard = Some(guard.clone());
        }
        read.end = reads(text, read.end, format_args!("{}:", near.label))?;
        let is_same = read.pointer == near.pointer
            && read.low == near.low
            && read.less == near.less
            && read.count.is_none()
            && read.predicate == near.predicate
            && read.guard == near.guard;
        is_same.then_some(())
    }

    /// A check by the function for any number of blocks.
    fn many(&self, at: u32, input: &Input<'_, '_, '_>) -> Option<Read> {
        let text = input.new;
        let (mut from, mut count, mut under) = (at, None, None);
        if let Some(after) = reads(text, from, format_args!("mul.wide.u32 {SCRATCH},")) {
            let counted = operand(text, after).to_owned();
            let after = reads(text, after, format_args!("{counted},"))?;
            let step: u64 = operand(text, after).parse().ok()?;
            let mut after = reads(text, after, format_args!("{step};"))?;
            let mut shift = 0;
            if let Some(shifts) = reads(text, after, format_args!("shr.u64 {SCRATCH}, {SCRATCH},"))
            {
                shift = operand(text, shifts).parse().ok()?;
                after = reads(text, shifts, format_args!("{shift};"))?;
            }
            let after = reads(text, after, format_args!("add.s64 {SCRATCH}, {SCRATCH},"))?;
            let last: u64 = operand(text, after).parse().ok()?;
            from = reads(text, after, format_args!("{last};"))?;
            count = Some((counted, step, shift, last));
        } else if let Some(after) = reads(text, from, format_args!("cvt.u64.u32 {SCRATCH},")) {
            let counted = operand(text, after).to_owned();
            from = reads(text, after, format_args!("{counted};"))?;
            count = Some((counted, 1, 0, 0));
        }
        // No bytes where the guard is false.
        if count.is_some()
            && let Some(after) = reads(text, from, format_args!("selp.b64 {SCRATCH},"))
        {
            let first = operand(text, after);
            let after = reads(text, after, format_args!("{first},"))?;
            let second = operand(text, after);
            let after = reads(text, after, format_args!("{second},"))?;
            if ![(SCRATCH, "0"), ("0", SCRATCH)].contains(&(first, second)) {
                return None;
            }
            let guard = operand(text, after);
            under = Some(match first {
                "0" => format!("!{guard}"),
                _ => guard.to_owned(),
            });
            from = reads(text, after, format_args!("{guard};"))?;
        }
        let (pointer, low, first, from) = shifted(text, from)?;
        let [zero, one, two] = [0, 1, 2].map(|n| format!("{NAME_PREFIX}{n}"));
        let after = reads(
            text,
            from,
            format_args!("{{ .param .b64 {zero}, {one}; .param .b32 {two}; st.param.b64 [{zero}],"),
        )?;
        let (pointer, first) = match first {
            Some(first) => (pointer, first),
            None => {
                let pointer = operand(text, after).to_owned();
                (pointer.clone(), pointer)
            }
        };
        let after = reads(text, after, format_args!("{first}; st.param.b64 [{one}],"))?;
        let bytes = operand(text, after);
        let less = match (&count, bytes.parse::<u64>()) {
            (Some(_), _) if bytes == SCRATCH => 0,
            (None, Ok(bytes)) => bytes.checked_sub(1)?,
            _ => return None,
        };
        let rest = format!(
            "{bytes}; call ({two}), {BLOCKS}, ({zero}, {one}); ld.param.b32 {BYTE}, [{two}]; }} setp.ne.u32"
        );
        let after = reads(text, after, &rest)?;
        let predicate = operand(text, after).to_owned();
        let end = reads(text, after, format_args!("{predicate}, {BYTE}, 0;"))?;
        let count = count.map(|(counted, step, shift, last)| Count {
            operand: self.resolve(&counted),
            step,
            shift,
            last,
        });
        Some(Read {
            pointer,
            low,
            less,
            count,
            blocks: Blocks::Many,
            asks: true,
            predicate,
            guard: under,
            end,
        })
    }
}

/// The pointer, what is added to it, the register that holds the sum, and where
/// the addition ends; without one, only where the text goes on.
fn shifted(text: &str, at: u32) -> Option<(Text, i64, Option<Text>, u32)> {
    let Some(after) = reads(text, at, format_args!("add.s64 {OFFSET},")) else {
        return Some((Text::new(), 0, None, at));
    };
    let pointer = operand(text, after).to_owned();
    let after = reads(text, after, format_args!("{pointer},"))?;
    let low: i64 = operand(text, after).parse().ok()?;
    let end = reads(text, after, format_args!("{low};"))?;
    Some((pointer, low, Some(OFFSET.to_owned()), end))
}

/// Reads what decides anew about addresses of the device heap, which have no shadow; where
/// it ends.
fn in_heap(
    (predicate, guard): (&str, Option<&str>),
    (pointer, low, bytes): (&str, i64, u64),
    at: u32,
    text: &str,
) -> Option<u32> {
    let below = (PLACED_BASE - HEAP_BASE) >> UNIT_SHIFT;
    let units = HEAP_RESERVED >> UNIT_SHIFT;
    let jump = format!(
        "add.s32 {PLACED_UNIT}, {PLACED_UNIT}, {below}; setp.ge.u32 {COVERED}, {PLACED_UNIT}, {units}; \
         @{COVERED} bra"
    );
    let after = reads(text, at, jump)?;
    let label = operand(text, after);
    label.starts_with(LABEL_PREFIX).then_some(())?;
    let [zero, one, two] = [0, 1, 2].map(|n| format!("{NAME_PREFIX}{n}"));
    let (add, first) = match low {
        0 => (String::new(), pointer),
        _ => (format!("add.s64 {OFFSET}, {pointer}, {low};"), OFFSET),
    };
    let under = guard.map_or(String::new(), |guard| {
        only_under(predicate, &format!("@{guard}"))
    });
    let rest = format!(
        "{label}; {add} {{ .param .b64 {zero}, {one}; .param .b32 {two}; \
         st.param.b64 [{zero}], {first}; st.param.b64 [{one}], {bytes}; \
         call ({two}), {BLOCKS}, ({zero}, {one}); ld.param.b32 {BYTE}, [{two}]; }} \
         setp.ne.u32 {predicate}, {BYTE}, 0; {under} {label}: "
    );
    reads(text, after, rest)
}

/// A check of one or two blocks; of blocks of the device heap, too, if there may be any.
fn in_line((encoding, has_heap): (Encoding, bool), at: u32, text: &str) -> Option<Read> {
    let (pointer, low, first, mut from) = shifted(text, at)?;
    let (pointer, first) = match first {
        Some(first) => (pointer, first),
        None => {
            let after = reads(text, from, format_args!("mov.b64 {{{LOW}, {HIGH}}},"))?;
            let pointer = operand(text, after).to_owned();
            (pointer.clone(), pointer)
        }
    };
    let (block, whole) = (encoding.block(), encoding.whole());
    let two = reads(text, from, load(encoding, &first, true));
    let has_two = two.is_some();
    from = match two {
        Some(end) => end,
        None => reads(text, from, load(encoding, &first, false))?,
    };
    from = reads(
        text,
        from,
        format_args!("and.b32 {LAST}, {LOW}, {}; ", block - 1),
    )?;
    let mut less = 0;
    if let Some(after) = reads(text, from, format_args!("add.s32 {LAST}, {LAST},")) {
        less = operand(text, after).parse().ok()?;
        from = reads(text, after, format_args!("{less};"))?;
    }
    if has_two {
        // (That the offset of the last byte is less than the value that stands for no
        // shadow memory, [`Blocks::fits`] asks.)
        let both = format!(
            "setp.eq.u32 {OTHER}, {BYTE}, {whole}; @{OTHER} add.s32 {BYTE}, {BYTE2}, {block};"
        );
        from = reads(text, from, &both)?;
    }
    let mut asks = encoding.tells_all();
    let compare = if asks { "le" } else { "lt" };
    let jump =
        format!("and.b32 {UNIT}, {LAST}, 255; setp.ne.u32 {COVERED}, {UNIT}, 0; @{COVERED} bra");
    if let Some(after) = reads(text, from, &jump).filter(|_| !asks) {
        let label = operand(text, after).to_owned();
        label.starts_with(LABEL_PREFIX).then_some(())?;
        from = reads(text, from, single(&first, less, &label))?;
        asks = true;
    }
    let (predicate, guard, mut end) = compared(text, from, compare)?;
    if has_heap {
        let verdict = (predicate.as_str(), guard.as_deref());
        end = in_heap(verdict, (&pointer, low, less + 1), end, text)?;
    }
    Some(Read {
        pointer,
        low,
        less,
        count: None,
        blocks: match has_two {
            true => Blocks::Two,
            false => Blocks::One,
        },
        asks,
        predicate,
        guard,
        end,
    })
}

/// The comparison that makes a verdict: the predicate, a guard in it, and where
/// it ends.
fn compared(text: &str, at: u32, compare: &str) -> Option<(Text, Option<Text>, u32)> {
    let predicate = |after: u32| operand(text, after).to_owned();
    if let Some(after) = reads(text, at, format_args!("setp.{compare}.u32")) {
        let made = predicate(after);
        let end = reads(text, after, format_args!("{made}, {BYTE}, {LAST};"))?;
        return Some((made, None, end));
    }
    let after = reads(text, at, format_args!("setp.{compare}.and.u32"))?;
    let made = predicate(after);
    let after = reads(text, after, format_args!("{made}, {BYTE}, {LAST},"))?;
    let guard = operand(text, after).to_owned();
    let end = reads(text, after, format_args!("{guard};"))?;
    Some((made, Some(guard), end))
}

/// Whether the accesses of a verdict lie in as many blocks as it is about, and
/// the last byte cannot be alone where that is not asked.
pub(super) fn is_exact(
    encoding: Encoding,
    (blocks, asks): (Blocks, bool),
    (low, end): (i64, i64),
    aligned: (u64, i64),
) -> bool {
    let Ok(bytes @ 1..) = u64::try_from(end.wrapping_sub(low)) else {
        return false;
    };
    blocks.fits(encoding, low, bytes, aligned)
        && (asks || !may_end_first(encoding, low, bytes, aligned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_accesses_lie_in_one_block() {
        let large = Encoding::Block256;
        assert!(Blocks::One.fits(large, 0, 16, (16, 0)));
        assert!(Blocks::One.fits(large, 20, 4, (8, 16)));
        assert!(!Blocks::One.fits(large, 4, 8, (8, 0)));
        assert!(!Blocks::One.fits(large, 0, 2, (1, 0)));
        assert!(Blocks::Two.fits(large, 0, 256, (1, 0)));
        assert!(!Blocks::Two.fits(large, 0, 258, (1, 0)));
        let small = Encoding::Block8;
        assert!(Blocks::Two.fits(small, 0, 16, (8, 0)) && Blocks::Two.fits(small, 0, 16, (16, 0)));
        assert!(
            !Blocks::Two.fits(small, 0, 16, (4, 0)) && !Blocks::Two.fits(small, 4, 16, (16, 0))
        );
        assert!(!may_end_first(large, 0, 4, (4, 0)));
        assert!(may_end_first(large, 0, 1, (1, 0)));
        assert!(may_end_first(large, -3, 4, (4, 0)));
    }
}
