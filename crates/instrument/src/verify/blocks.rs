//! Checks against shadow memory. Each has one form for the number of blocks that
//! it may touch; the text is built here independently, and read word by word.
//!
//! In the form for one block, bytes in the next one are never let pass: the
//! offset of the last byte is then larger than any value. So it cannot miss
//! anything, but it would report legal accesses if they could lie in two
//! blocks: [`Blocks::fits`].

use super::checks::{Input, State, Text};
use super::verdicts::{Count, Distance};
use super::written::{call_of_lookup, number, reads, word};
use crate::protocol::family::KEPT;
use crate::protocol::register::{
    BYTE, BYTE2, COVERED, FIRST_PIECE, LAST, OFFSET, OTHER, OUTSIDE, PIECE, PIECES, PLACED_PIECE,
    PLACED_PIECES, SCRATCH, SCRATCH2, WEAK_BASE, WEAK_SIZE,
};
use crate::protocol::{BLOCKS, LABEL_PREFIX, NAME_PREFIX};
use model::layout::LAUNCH_PARAMETER;
use model::layout::placed::PLACED_BASE;
use model::layout::shadow::{Encoding, LAUNCH_WINDOW, SHADOW_BASE, SHADOW_WINDOW};

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
            Blocks::One => first + bytes <= alignment,
            Blocks::Two => bytes <= encoding.block(),
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

/// Reads which pieces are covered, at the top of a body.
pub(super) fn window() -> String {
    format!(
        "mov.b64 {SCRATCH}, {SHADOW_WINDOW}; ld.global.b32 {FIRST_PIECE}, [{SCRATCH}+0]; \
         ld.global.b32 {PIECES}, [{SCRATCH}+4]; ld.global.b32 {PLACED_PIECES}, [{SCRATCH}+8];"
    )
}

/// The same, from the end of the launch parameter, which has so many bytes.
pub(super) fn window_of_launch(bytes: u64) -> String {
    format!(
        "ld.param.b32 {FIRST_PIECE}, [{LAUNCH_PARAMETER}+{}]; ld.param.b32 {PIECES}, [{LAUNCH_PARAMETER}+{}]; \
         ld.param.b32 {PLACED_PIECES}, [{LAUNCH_PARAMETER}+{}];",
        bytes.wrapping_sub(LAUNCH_WINDOW),
        bytes.wrapping_sub(LAUNCH_WINDOW - 4),
        bytes.wrapping_sub(LAUNCH_WINDOW - 8)
    )
}

/// Loads the shadow byte of an address, or that of a whole block where there is
/// none.
fn load(encoding: Encoding, address: &str, into: &str) -> String {
    let piece = encoding.shift() + 21;
    format!(
        "shr.u64 {SCRATCH}, {address}, {piece}; cvt.u32.u64 {PIECE}, {SCRATCH}; \
         sub.s32 {PLACED_PIECE}, {PIECE}, {}; \
         sub.s32 {PIECE}, {PIECE}, {FIRST_PIECE}; setp.lt.u32 {COVERED}, {PIECE}, {PIECES}; \
         setp.lt.or.u32 {COVERED}, {PLACED_PIECE}, {PLACED_PIECES}, {COVERED}; \
         shr.u64 {SCRATCH}, {address}, {}; add.s64 {SCRATCH}, {SCRATCH}, {SHADOW_BASE}; \
         mov.b32 {into}, {}; @{COVERED} ld.global.u8 {into}, [{SCRATCH}]; ",
        PLACED_BASE >> piece,
        encoding.shift(),
        encoding.whole()
    )
}

/// Looks up a byte that may be the only one of its block.
fn single(last: &str, byte: &str, label: &str) -> String {
    format!(
        "or.b32 {PIECE}, {byte}, {LAST}; setp.ne.u32 {COVERED}, {PIECE}, 0; @{COVERED} bra {label}; {} \
         sub.s64 {SCRATCH}, {last}, {WEAK_BASE}; setp.lt.u64 {COVERED}, {SCRATCH}, {WEAK_SIZE}; \
         selp.b32 {byte}, 1, 0, {COVERED}; {label}: max.u32 {LAST}, {LAST}, 1; ",
        call_of_lookup(last)
    )
}

fn operand(text: &str, at: u32) -> &str {
    word(text, at).trim_end_matches([',', ';'])
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

impl State {
    /// Reads a check; where it ends.
    pub(super) fn shadow_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let encoding = input.shadow.filter(|_| self.roots.is_set(FIRST_PIECE))?;
        let read = self
            .many(at, input)
            .or_else(|| in_line(encoding, at, input.new))?;
        let is_verdict = read.predicate == OUTSIDE || number(&read.predicate, KEPT).is_some();
        if !is_verdict {
            return None;
        }
        let pointer = match self.symbols.contains_key(&read.pointer) {
            true => read.pointer,
            false => self.resolve(&read.pointer),
        };
        let guards = read.guard.map(|guard| match guard.strip_prefix('!') {
            Some(register) => format!("!{}", self.resolve(register)),
            None => self.resolve(&guard),
        });
        self.distance = Some(Distance {
            pointer,
            low: read.low,
            ..Distance::default()
        });
        self.begin(
            &read.predicate,
            Text::new(),
            read.less,
            guards.into_iter().collect(),
        );
        if let Some(verdict) = self.verdicts.get_mut(&read.predicate) {
            verdict.blocks = Some((read.blocks, read.asks));
            verdict.count = read.count.map(|count| (count, 3));
        }
        Some(read.end)
    }

    /// A check by the function for any number of blocks.
    fn many(&self, at: u32, input: &Input<'_, '_, '_>) -> Option<Read> {
        let text = input.new;
        let (mut from, mut count, mut under) = (at, None, None);
        if let Some(after) = reads(text, from, &format!("mul.wide.u32 {SCRATCH},")) {
            let counted = operand(text, after).to_owned();
            let after = reads(text, after, &format!("{counted},"))?;
            let step: u64 = operand(text, after).parse().ok()?;
            let after = reads(
                text,
                after,
                &format!("{step}; add.s64 {SCRATCH}, {SCRATCH},"),
            )?;
            let last: u64 = operand(text, after).parse().ok()?;
            from = reads(text, after, &format!("{last};"))?;
            count = Some((counted, step, last));
        } else if let Some(after) = reads(text, from, &format!("cvt.u64.u32 {SCRATCH},")) {
            let counted = operand(text, after).to_owned();
            from = reads(text, after, &format!("{counted};"))?;
            count = Some((counted, 1, 0));
        }
        // No bytes where the guard is false.
        if count.is_some()
            && let Some(after) = reads(text, from, &format!("selp.b64 {SCRATCH},"))
        {
            let first = operand(text, after);
            let after = reads(text, after, &format!("{first},"))?;
            let second = operand(text, after);
            let after = reads(text, after, &format!("{second},"))?;
            if ![(SCRATCH, "0"), ("0", SCRATCH)].contains(&(first, second)) {
                return None;
            }
            let guard = operand(text, after);
            under = Some(match first {
                "0" => format!("!{guard}"),
                _ => guard.to_owned(),
            });
            from = reads(text, after, &format!("{guard};"))?;
        }
        let (pointer, low, first, from) = shifted(text, from)?;
        let [zero, one, two] = [0, 1, 2].map(|n| format!("{NAME_PREFIX}{n}"));
        let after = reads(
            text,
            from,
            &format!("{{ .param .b64 {zero}, {one}; .param .b32 {two}; st.param.b64 [{zero}],"),
        )?;
        let (pointer, first) = match first {
            Some(first) => (pointer, first),
            None => {
                let pointer = operand(text, after).to_owned();
                (pointer.clone(), pointer)
            }
        };
        let after = reads(text, after, &format!("{first}; st.param.b64 [{one}],"))?;
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
        let end = reads(text, after, &format!("{predicate}, {BYTE}, 0;"))?;
        let count = count.map(|(counted, step, last)| Count {
            operand: self.resolve(&counted),
            step,
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
    let Some(after) = reads(text, at, &format!("add.s64 {OFFSET},")) else {
        return Some((Text::new(), 0, None, at));
    };
    let pointer = operand(text, after).to_owned();
    let after = reads(text, after, &format!("{pointer},"))?;
    let low: i64 = operand(text, after).parse().ok()?;
    let end = reads(text, after, &format!("{low};"))?;
    Some((pointer, low, Some(OFFSET.to_owned()), end))
}

/// A check of one or two blocks.
fn in_line(encoding: Encoding, at: u32, text: &str) -> Option<Read> {
    let (pointer, low, first, from) = shifted(text, at)?;
    let (pointer, first) = match first {
        Some(first) => (pointer, first),
        None => {
            let after = reads(text, from, &format!("shr.u64 {SCRATCH},"))?;
            let pointer = operand(text, after).to_owned();
            (pointer.clone(), pointer)
        }
    };
    let (block, whole) = (encoding.block(), encoding.whole());
    let mut from = reads(text, from, &load(encoding, &first, BYTE))?;
    let mut second = None;
    if let Some(after) = reads(text, from, &format!("add.s64 {SCRATCH2}, {first},")) {
        let less: u64 = operand(text, after).parse().ok()?;
        let after = reads(text, after, &format!("{less};"))?;
        from = reads(text, after, &load(encoding, SCRATCH2, BYTE2))?;
        second = Some(less);
    }
    let offset = format!(
        "cvt.u32.u64 {LAST}, {first}; and.b32 {LAST}, {LAST}, {}; ",
        block - 1
    );
    from = reads(text, from, &offset)?;
    let mut less = 0;
    if let Some(after) = reads(text, from, &format!("add.s32 {LAST}, {LAST},")) {
        less = operand(text, after).parse().ok()?;
        from = reads(text, after, &format!("{less};"))?;
    }
    let (last, byte) = match second {
        Some(same) if same == less => {
            let both = format!(
                "setp.ge.u32 {OTHER}, {LAST}, {block}; setp.ne.and.u32 {OTHER}, {BYTE}, {whole}, {OTHER}; \
                 and.b32 {LAST}, {LAST}, {};",
                block - 1
            );
            from = reads(text, from, &both)?;
            (SCRATCH2, BYTE2)
        }
        Some(_) => return None,
        None => (first.as_str(), BYTE),
    };
    let mut asks = encoding == Encoding::Block128;
    let compare = if asks { "le" } else { "lt" };
    let looks_up = reads(text, from, &format!("or.b32 {PIECE}, {byte},")).is_some();
    if !asks && looks_up {
        let jump = format!(
            "or.b32 {PIECE}, {byte}, {LAST}; setp.ne.u32 {COVERED}, {PIECE}, 0; @{COVERED} bra"
        );
        let label = operand(text, reads(text, from, &jump)?).to_owned();
        label.starts_with(LABEL_PREFIX).then_some(())?;
        from = reads(text, from, &single(last, byte, &label))?;
        asks = true;
    }
    let (predicate, guard, end) = compared(text, from, compare, byte, second.is_some())?;
    Some(Read {
        pointer,
        low,
        less,
        count: None,
        blocks: match second {
            Some(_) => Blocks::Two,
            None => Blocks::One,
        },
        asks,
        predicate,
        guard,
        end,
    })
}

/// The comparison that makes a verdict: the predicate, a guard in it, and where
/// it ends.
fn compared(
    text: &str,
    at: u32,
    compare: &str,
    byte: &str,
    has_two: bool,
) -> Option<(Text, Option<Text>, u32)> {
    let predicate = |after: u32| operand(text, after).to_owned();
    if has_two {
        let after = reads(text, at, &format!("setp.{compare}.or.u32"))?;
        let made = predicate(after);
        let end = reads(text, after, &format!("{made}, {byte}, {LAST}, {OTHER};"))?;
        return Some((made, None, end));
    }
    if let Some(after) = reads(text, at, &format!("setp.{compare}.u32")) {
        let made = predicate(after);
        let end = reads(text, after, &format!("{made}, {byte}, {LAST};"))?;
        return Some((made, None, end));
    }
    let after = reads(text, at, &format!("setp.{compare}.and.u32"))?;
    let made = predicate(after);
    let after = reads(text, after, &format!("{made}, {byte}, {LAST},"))?;
    let guard = operand(text, after).to_owned();
    let end = reads(text, after, &format!("{guard};"))?;
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
        assert!(!Blocks::Two.fits(Encoding::Block128, 0, 129, (128, 0)));
        assert!(!may_end_first(large, 0, 4, (4, 0)));
        assert!(may_end_first(large, 0, 1, (1, 0)));
        assert!(may_end_first(large, -3, 4, (4, 0)));
    }
}
