//! Check code as text: some of it has only one form, which is compared word by
//! word. The expected text is built here independently, from the names in
//! `protocol` and the layout that host and device share.

use crate::protocol::family::{LIMIT, ROOT_BASE, ROOT_SIZE};
use crate::protocol::register::{
    ADDRESS, DYNAMIC, OFFSET, OTHER, OUTSIDE, RECORD_BASE, RECORD_PART, RECORD_SIZE, RECORD_WORD,
    REPORTED, ROUNDS, SCRATCH, SCRATCH2, SITE, SPACE_ADDRESS, SPACE_BASE, TOLD_ADDRESS, TOLD_BASE,
    TOLD_SIZE, UNHARMED, WEAK_BASE, WEAK_SIZE,
};
use crate::protocol::{
    APPEND, IN_SPACE_SITE, LABEL_PREFIX, LAST_SITE, LEAVE, LOOKUP, MOST_OBJECTS, MOST_ROUNDS,
    NAME_PREFIX, OBJECT_SHIFT, REGISTER_PREFIX, STILL,
};
use model::layout::{
    ENDED, LAUNCH_PARAMETER, RING_CAPACITY, RING_HEAD, RING_RECORDS, RING_TAIL, Record,
    WINDOW_CONSTANT, WINDOW_LOCAL, WINDOW_PARAMETER, WINDOW_SHARED, WINDOW_SHIFT,
};
use std::fmt::{self, Display, Write as _};
use std::mem::offset_of;

/// The end of the words of `expected` in `text`, from `from` on.
pub(super) fn reads(text: &str, from: u32, expected: impl Display) -> Option<u32> {
    let at = from as usize;
    let mut words = Words {
        text: text.as_bytes(),
        at,
        end: at,
        is_inside: false,
    };
    write!(words, "{expected}").ok()?;
    words.word_ends().ok()?;
    u32::try_from(words.end).ok()
}

/// Compares words with those of a text while they are written, so that nothing more
/// is put together behind the first that differs.
struct Words<'t> {
    text: &'t [u8],
    at: usize,
    /// The end of the last word.
    end: usize,
    /// A word has begun.
    is_inside: bool,
}

impl Words<'_> {
    fn word_ends(&mut self) -> fmt::Result {
        if !std::mem::take(&mut self.is_inside) {
            return Ok(());
        }
        self.end = self.at;
        let is_longer = |byte: &u8| !byte.is_ascii_whitespace();
        match self.text.get(self.at).is_some_and(is_longer) {
            true => Err(fmt::Error),
            false => Ok(()),
        }
    }
}

impl fmt::Write for Words<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for byte in part.bytes() {
            if byte.is_ascii_whitespace() {
                self.word_ends()?;
                continue;
            }
            if !self.is_inside {
                self.is_inside = true;
                let blanks = self.text.iter().skip(self.at);
                self.at += blanks.take_while(|byte| byte.is_ascii_whitespace()).count();
            }
            if self.text.get(self.at) != Some(&byte) {
                return Err(fmt::Error);
            }
            self.at += 1;
        }
        Ok(())
    }
}

/// The word that `text` has at `from`, behind blanks.
pub(super) fn word(text: &str, from: u32) -> &str {
    let rest = text.get(from as usize..).unwrap_or("");
    rest.split_ascii_whitespace().next().unwrap_or("")
}

/// The operand that begins there.
pub(super) fn operand(text: &str, from: u32) -> &str {
    word(text, from).trim_end_matches([',', ';'])
}

/// The number of a register of a family.
pub(super) fn number(register: &str, family: &str) -> Option<u32> {
    let digits = register.strip_prefix(family)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

/// The call that looks up `argument`; the bounds are then in the scratch pair.
pub(super) fn call_of_lookup(argument: &str) -> String {
    let [zero, one] = [0, 1].map(|n| format!("{NAME_PREFIX}{n}"));
    format!(
        "{{ .param .b64 {zero}; .param .align 8 .b8 {one}[16]; st.param.b64 [{zero}], {argument}; \
         call ({one}), {LOOKUP}, ({zero}); ld.param.b64 {WEAK_BASE}, [{one}]; \
         ld.param.b64 {WEAK_SIZE}, [{one}+8]; }} "
    )
}

/// Looks up `pointer`, or null where the program's guard (`@p`, `@!p`, or
/// empty) is false.
pub(super) fn look_up(pointer: &str, guard: &str) -> String {
    match (guard.strip_prefix("@!"), guard.strip_prefix('@')) {
        (Some(guard), _) => format!(
            "selp.b64 {SCRATCH}, 0, {pointer}, {guard}; {}",
            call_of_lookup(SCRATCH)
        ),
        (None, Some(guard)) => format!(
            "selp.b64 {SCRATCH}, {pointer}, 0, {guard}; {}",
            call_of_lookup(SCRATCH)
        ),
        (None, None) => call_of_lookup(pointer),
    }
}

/// The same, into a pair of registers, which otherwise keep their values.
pub(super) fn look_up_into(pointer: &str, guard: &str, (base, size): (&str, &str)) -> String {
    format!(
        "{} {guard} mov.b64 {base}, {WEAK_BASE}; {guard} mov.b64 {size}, {WEAK_SIZE}; ",
        look_up(pointer, guard)
    )
}

/// The size is zero if the block was freed that the bounds are of.
pub(super) fn still(base: &str, size: &str) -> String {
    let [zero, one, two] = [0, 1, 2].map(|n| format!("{NAME_PREFIX}{n}"));
    format!(
        "{{ .param .b64 {zero}, {one}, {two}; st.param.b64 [{zero}], {base}; \
         st.param.b64 [{one}], {size}; call ({two}), {STILL}, ({zero}, {one}); \
         ld.param.b64 {size}, [{two}]; }} "
    )
}

/// Bounds of a root, in registers.
pub(super) fn root(number: u32) -> (String, String) {
    (
        format!("{ROOT_BASE}{number}"),
        format!("{ROOT_SIZE}{number}"),
    )
}

/// What a limit register holds: `max(size, less) - less`, or zero where a
/// pointer of the parameters is not aligned. The host may have computed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// Number of the root whose size it is.
    pub(super) root: u32,
    pub(super) less: u64,
    /// Parameter, bytes into it, what is added to the pointer there, and the
    /// alignment of the sum.
    pub(super) pointer: Option<(String, i64, i64, u64)>,
    /// Its place in the launch parameter.
    pub(super) place: Option<u64>,
}

impl Limit {
    /// What computes it, or loads it.
    pub(super) fn text(&self, number: u32) -> String {
        let (register, size) = (format!("{LIMIT}{number}"), root(self.root).1);
        if let Some(place) = self.place {
            return format!("ld.param.b64 {register}, [{LAUNCH_PARAMETER}+{place}]; ");
        }
        let less = self.less;
        let mut text =
            format!("max.u64 {register}, {size}, {less}; sub.s64 {register}, {register}, {less}; ");
        if let Some((name, at, added, bytes)) = &self.pointer {
            text += &format!("ld.param.b64 {SCRATCH2}, [{name}+{at}]; ");
            if *added != 0 {
                text += &format!("add.s64 {SCRATCH2}, {SCRATCH2}, {added}; ");
            }
            text += &format!(
                "and.b64 {SCRATCH2}, {SCRATCH2}, {}; setp.ne.s64 {OTHER}, {SCRATCH2}, 0; \
                 selp.b64 {register}, 0, {register}, {OTHER}; ",
                bytes - 1
            );
        }
        text
    }
}

/// What is found of objects in spaces of their own where a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InSpace<'t> {
    /// The registers with the bases of the objects, by number; none if the last check that
    /// failed has kept where its object begins.
    pub(super) bases: [&'t str; MOST_OBJECTS],
    /// The launch has the size.
    pub(super) is_dynamic: bool,
}

/// What the record of a body has besides site and address.
#[derive(Clone, Copy)]
pub(super) struct RecordFacts<'t> {
    /// See [`InSpace`].
    pub(super) in_space: Option<InSpace<'t>>,
    /// Names the module.
    pub(super) tag: u64,
    /// The launch has a number, in the launch parameter.
    pub(super) has_launch: bool,
    /// The bounds that the address was checked against.
    pub(super) has_bounds: bool,
    /// The module may use `st.release`.
    pub(super) releases: bool,
    /// It may use `isspacep.param`.
    pub(super) has_parameter_window: bool,
}

/// Writes the record unless `OUTSIDE` is true.
pub(super) fn record_unless_outside(number: u32, facts: RecordFacts<'_>) -> String {
    let label = format!("{LABEL_PREFIX}done{number}");
    let record = record(&label, facts, false);
    format!("@{OUTSIDE} bra {label}; {record} {label}: ")
}

/// Counts a round of an open loop, and leaves if it is the last one.
pub(super) fn round() -> String {
    format!(
        "setp.ne.s32 {OTHER}, {SITE}, 0; @{OTHER} add.u32 {ROUNDS}, {ROUNDS}, 1; \
         setp.ge.u32 {OTHER}, {ROUNDS}, {MOST_ROUNDS}; @{OTHER} bra {LEAVE};"
    )
}

/// Where threads leave open loops: they write the record, and end.
pub(super) fn leave(number: u32, facts: RecordFacts<'_>) -> String {
    let label = format!("{LABEL_PREFIX}done{number}");
    let record = record(&label, facts, true);
    format!("{LEAVE}: {record} {label}: exit;")
}

/// The facts that a record at a place of the text may be written with.
pub(super) fn possible<'t>(text: &'t str, at: u32, facts: RecordFacts<'t>) -> Vec<RecordFacts<'t>> {
    let all = |has_bounds, in_space| RecordFacts {
        has_bounds,
        in_space,
        ..facts
    };
    match bases_at(text, at) {
        None => [true, false].map(|has_bounds| all(has_bounds, None)).into(),
        Some(bases) => {
            let in_space = |is_dynamic| InSpace { bases, is_dynamic };
            [true, false]
                .map(|is_dynamic| all(true, Some(in_space(is_dynamic))))
                .into()
        }
    }
}

/// The bases of objects that a record is found by, at a place of the text.
fn bases_at(text: &str, at: u32) -> Option<[&str; MOST_OBJECTS]> {
    let mut bases = [""; MOST_OBJECTS];
    let operand = |at: u32| word(text, at).trim_end_matches([',', ';']);
    if let Some(behind) = reads(text, at, format_args!("mov.b32 {SPACE_BASE},")) {
        bases[0] = operand(behind);
        let mut at = reads(text, behind, format_args!("{};", bases[0]))?;
        at = reads(text, at, number_of_object())?;
        for (number, base) in bases.iter_mut().enumerate().skip(1) {
            let test =
                format!("setp.eq.s32 {OTHER}, {RECORD_PART}, {number}; selp.b32 {SPACE_BASE},");
            let Some(behind) = reads(text, at, &test) else {
                break;
            };
            *base = operand(behind);
            let rest = format!("{base}, {SPACE_BASE}, {OTHER};");
            at = reads(text, behind, rest)?;
        }
        return Some(bases);
    }
    let first = format!(
        "setp.lt.s32 {OTHER}, {SITE}, 0; cvt.u64.u32 {TOLD_ADDRESS}, {SPACE_ADDRESS}; \
         selp.b64 {TOLD_ADDRESS}, {TOLD_ADDRESS}, {ADDRESS}, {OTHER}; cvt.u64.u32 {TOLD_BASE},"
    );
    let base = operand(reads(text, at, first)?);
    if base != SPACE_BASE {
        bases[0] = base;
    }
    Some(bases)
}

/// The text that takes the number of the object from a site.
fn number_of_object() -> String {
    let most = (IN_SPACE_SITE >> OBJECT_SHIFT) - 1;
    format!(
        "shr.u32 {RECORD_PART}, {SITE}, {OBJECT_SHIFT}; \
         and.b32 {RECORD_PART}, {RECORD_PART}, {most}; "
    )
}

/// The text that finds where the object begins that a check was of, and the register that
/// then holds it.
fn object(bases: [&str; MOST_OBJECTS]) -> (String, &str) {
    let (first, others) = match bases {
        ["", ..] => return (String::new(), SPACE_BASE),
        [only, "", ..] => return (String::new(), only),
        [first, ..] => (first, &bases[1..]),
    };
    let mut text = format!("mov.b32 {SPACE_BASE}, {first}; {}", number_of_object());
    for (base, number) in others.iter().zip(1..).filter(|(base, _)| !base.is_empty()) {
        text += &format!(
            "setp.eq.s32 {OTHER}, {RECORD_PART}, {number}; \
             selp.b32 {SPACE_BASE}, {base}, {SPACE_BASE}, {OTHER}; "
        );
    }
    (text, SPACE_BASE)
}

/// What a record is written from: the text that finds it, then site, address, base and
/// size.
fn told(facts: RecordFacts<'_>) -> (String, [&'static str; 4]) {
    let size = match facts.has_bounds {
        true => RECORD_SIZE,
        false => "0",
    };
    let Some(InSpace { bases, is_dynamic }) = facts.in_space else {
        let base = if facts.has_bounds { RECORD_BASE } else { "0" };
        return (String::new(), [SITE, ADDRESS, base, size]);
    };
    let (mut text, base) = object(bases);
    text += &format!(
        "setp.lt.s32 {OTHER}, {SITE}, 0; cvt.u64.u32 {TOLD_ADDRESS}, {SPACE_ADDRESS}; \
         selp.b64 {TOLD_ADDRESS}, {TOLD_ADDRESS}, {ADDRESS}, {OTHER}; \
         cvt.u64.u32 {TOLD_BASE}, {base}; \
         selp.b64 {TOLD_BASE}, {TOLD_BASE}, {RECORD_BASE}, {OTHER}; "
    );
    if is_dynamic {
        text += &format!(
            "cvt.u64.u32 {TOLD_SIZE}, {DYNAMIC}; \
             selp.b64 {TOLD_SIZE}, {TOLD_SIZE}, {RECORD_SIZE}, {OTHER}; "
        );
    }
    text += &format!("and.b32 {RECORD_PART}, {SITE}, {}; ", LAST_SITE);
    let size = if is_dynamic { TOLD_SIZE } else { size };
    (text, [RECORD_PART, TOLD_ADDRESS, TOLD_BASE, size])
}

/// Writes the record. If the ring is full, it jumps to `label`.
fn record(label: &str, facts: RecordFacts<'_>, ends: bool) -> String {
    let (at, to) = (SCRATCH, OFFSET);
    let field = |field: usize, value: &str| format!("st.global.b64 [{at}+{field}], {value}; ");
    let half = |field: usize| format!("st.global.b32 [{at}+{field}], {RECORD_WORD}; ");
    let join = |register: &str, shift: u32| {
        format!(
            "mov.u32 {RECORD_PART}, {register}; shl.b32 {RECORD_PART}, {RECORD_PART}, {shift}; \
             or.b32 {RECORD_WORD}, {RECORD_WORD}, {RECORD_PART}; "
        )
    };
    let (found, [site, address, base, size]) = told(facts);
    let mut text = format!(
        "{found}mov.b64 {at}, {RING_HEAD}; atom.global.add.u64 {to}, [{at}], 1; \
         mov.b64 {at}, {RING_TAIL}; ld.volatile.global.u64 {SCRATCH2}, [{at}]; \
         sub.s64 {SCRATCH2}, {to}, {SCRATCH2}; \
         setp.ge.u64 {OUTSIDE}, {SCRATCH2}, {RING_CAPACITY}; @{OUTSIDE} bra {label}; \
         and.b64 {at}, {to}, {}; shl.b64 {at}, {at}, {}; add.s64 {at}, {at}, {RING_RECORDS}; \
         mov.b64 {SCRATCH2}, {}; ",
        RING_CAPACITY - 1,
        size_of::<Record>().ilog2(),
        facts.tag,
    );
    text += &field(offset_of!(Record, module), SCRATCH2);
    text += &field(offset_of!(Record, address), address);
    text += &field(offset_of!(Record, base), base);
    text += &field(offset_of!(Record, size), size);
    text += &match facts.has_launch {
        true => format!("ld.param.b64 {SCRATCH2}, [{LAUNCH_PARAMETER}]; "),
        false => format!("mov.b64 {SCRATCH2}, 0; "),
    };
    text += &field(offset_of!(Record, launch), SCRATCH2);
    text += &format!(
        "st.global.b32 [{at}+{}], {site}; mov.u32 {RECORD_WORD}, %tid.x; ",
        offset_of!(Record, site)
    );
    text += &join("%tid.y", 10);
    text += &join("%tid.z", 20);
    let windows = [
        ("shared", WINDOW_SHARED, true),
        ("local", WINDOW_LOCAL, true),
        ("const", WINDOW_CONSTANT, true),
        ("param", WINDOW_PARAMETER, facts.has_parameter_window),
    ];
    let windows = windows.iter().filter(|(.., is_known)| *is_known);
    for (space, window, _) in windows.filter(|_| facts.has_bounds) {
        text += &format!(
            "isspacep.{space} {OTHER}, {base}; \
             selp.b32 {RECORD_PART}, {}, 0, {OTHER}; \
             or.b32 {RECORD_WORD}, {RECORD_WORD}, {RECORD_PART}; ",
            window << WINDOW_SHIFT
        );
    }
    if ends {
        text += &format!("or.b32 {RECORD_WORD}, {RECORD_WORD}, {ENDED}; ");
    }
    text += &half(offset_of!(Record, thread));
    text += &format!("mov.u32 {RECORD_WORD}, %ctaid.x; ");
    text += &half(offset_of!(Record, block_x));
    text += &format!("mov.u32 {RECORD_WORD}, %ctaid.y; ");
    text += &join("%ctaid.z", 16);
    text += &half(offset_of!(Record, block_yz));
    text += &format!("add.s64 {to}, {to}, 1; ");
    text += &match facts.releases {
        true => format!("st.release.sys.global.u64 [{at}], {to}; "),
        false => format!("@!{OUTSIDE} membar.sys; st.volatile.global.u64 [{at}], {to}; "),
    };
    text
}

/// Appends the record and traps, unless the thread is unharmed.
pub(super) fn trap_unless_unharmed(number: u32, facts: RecordFacts<'_>) -> String {
    let label = format!("{LABEL_PREFIX}done{number}");
    let append = append(facts);
    format!("@{UNHARMED} bra {label}; {append} @!{UNHARMED} trap; {label}: ")
}

/// Appends the record and notes its site, unless `OUTSIDE` is true.
pub(super) fn record_and_go_on(number: u32, facts: RecordFacts<'_>) -> String {
    let label = format!("{LABEL_PREFIX}done{number}");
    let append = append(facts);
    format!("@{OUTSIDE} bra {label}; {append} mov.u32 {REPORTED}, {SITE}; {label}: ")
}

/// The call that appends the record.
fn append(facts: RecordFacts<'_>) -> String {
    let names: Vec<String> = (0..5).map(|n| format!("{NAME_PREFIX}{n}")).collect();
    let launch = match facts.has_launch {
        true => format!("ld.param.b64 {SCRATCH}, [{LAUNCH_PARAMETER}];"),
        false => format!("mov.b64 {SCRATCH}, 0;"),
    };
    let (found, [own_site, own_address, base, size]) = told(facts);
    let [site, address, of, bytes, launched] = &names[..] else {
        return String::new();
    };
    format!(
        "{found}{launch} {{ .param .b32 {site}; \
         .param .b64 {address}, {of}, {bytes}, {launched}; \
         st.param.b32 [{site}], {own_site}; st.param.b64 [{address}], {own_address}; \
         st.param.b64 [{of}], {base}; st.param.b64 [{bytes}], {size}; \
         st.param.b64 [{launched}], {SCRATCH}; call {APPEND}, ({}); }}",
        names.join(", ")
    )
}

/// Takes a predicate back where the program's guard does not hold.
pub(super) fn only_under(predicate: &str, guard: &str) -> String {
    match (guard.strip_prefix("@!"), guard.strip_prefix('@')) {
        (Some(guard), _) => {
            format!("not.pred {OTHER}, {guard}; and.pred {predicate}, {predicate}, {OTHER}; ")
        }
        (None, Some(guard)) => format!("and.pred {predicate}, {predicate}, {guard}; "),
        (None, None) => String::new(),
    }
}

/// Whether a register is one of check code's.
pub(super) fn is_own(register: &str) -> bool {
    register.starts_with(REGISTER_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_and_blanks_are_not() {
        let text = "x add.s64  a,\n\tb; rest";
        assert_eq!(reads(text, 1, "add.s64 a, b;"), Some(17));
        assert_eq!(reads(text, 1, "add.s64 a, c;"), None);
        assert_eq!(reads(text, 1, "add.s64 a, b; re"), None);
        assert_eq!(reads(text, 1, ""), Some(1));
        assert_eq!(word(text, 1), "add.s64");
        assert_eq!(number("%__rf_hb3", "%__rf_hb"), Some(3));
        assert_eq!(number("%__rf_hb3", "%__rf_h"), None);
    }
}
