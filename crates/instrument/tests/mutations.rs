//! The verifier against defects that a machine makes: every line that the pass
//! inserted or changed, in all filetests, is left out, exchanged with the next
//! one, and changed operand by operand; the program's own lines between them are
//! left out and exchanged. The verifier must refuse each result,
//! or the defect must be harmless for a reason that is listed here.

use crate::common;

use instrument::{EntryPlan, Instrumented};
use model::layout::shadow::Encoding;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A kind of defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    LeftOut,
    Exchanged,
    Register,
    Number,
    Guard,
    Opcode,
    Order,
}

/// A changed text: the description of the change, and the new lines.
struct Defect {
    kind: Kind,
    lines: Vec<String>,
    /// Lines that they replace.
    replaces: usize,
}

/// The module without its expectations, which hold names that are reserved.
fn module_of(source: &str) -> String {
    let keys = ["CHECK", "ABSENT", "SITE", "ENTRY"];
    let is_expectation = |line: &str| {
        keys.iter()
            .any(|key| line.starts_with(&format!("// {key}:")))
    };
    let lines = source.lines().filter(|line| !is_expectation(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The places of the lines that the pass inserted or changed, without the
/// functions that checks call, whose text is known.
fn inserted(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_helper = false;
    let lines: Vec<&str> = text.lines().collect();
    for (place, line) in lines.iter().copied().enumerate() {
        if line.starts_with(".func") || line.starts_with(".visible") || line.starts_with(".weak") {
            let known = [
                "block", "blocks", "lookup", "append", "text", "malloc", "free", "still",
            ];
            let known = known.iter().any(|name| {
                let name = format!("__ringfence_{name}");
                line.contains(&format!("{name} (")) || line.contains(&format!("{name}("))
            });
            is_helper = known && !line.trim_end().ends_with(';');
        }
        let is_own = ["%__rf_", "$__rf_", "__ringfence_"];
        let is_head = line.starts_with('.') || line.starts_with("//");
        let is_own = is_own.iter().any(|own| line.contains(own));
        if !is_helper && !is_head && (is_own || sets_result(&lines[place..])) {
            found.push(place);
        }
        if line.starts_with('}') {
            is_helper = false;
        }
    }
    found
}

/// Whether the first of these lines sets the result of an instruction that is
/// skipped.
fn sets_result(lines: &[&str]) -> bool {
    let is_zero = |line: &str| line.trim().starts_with("mov.b") && line.ends_with(", 0;");
    let rest = lines.iter().skip_while(|line| is_zero(line));
    let mut rest = rest
        .map(|line| line.trim())
        .skip_while(|line| line.starts_with(".pragma"));
    is_zero(lines[0]) && rest.next().is_some_and(|line| line.starts_with("@!%__rf_"))
}

/// The places of the program's own lines in checked copies.
fn programs(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut is_copy, mut is_body) = (false, false);
    let lines: Vec<&str> = text.lines().collect();
    for (place, line) in lines.iter().copied().enumerate() {
        let code = line.trim();
        is_copy |= line.starts_with('.') && line.contains("__ringfence_checked_");
        let is_own = ["__rf_", "__ringfence_"]
            .iter()
            .any(|own| line.contains(own));
        let is_bracket = ["{", "}", ""].contains(&code) || code.starts_with("//");
        let is_own = is_own || sets_result(&lines[place..]);
        if is_copy && is_body && !is_own && !is_bracket {
            found.push(place);
        }
        is_body = is_body && !line.starts_with('}') || line.starts_with('{');
        is_copy &= !line.starts_with('}') && !line.ends_with(");");
    }
    found
}

/// Words of a line: names, numbers, and the text between them.
fn words(line: &str) -> Vec<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_%$.".contains(c);
    let mut words: Vec<String> = Vec::new();
    let mut was_word = false;
    for c in line.chars() {
        if is_word(c) && was_word {
            if let Some(last) = words.last_mut() {
                last.push(c);
            }
        } else {
            words.push(c.to_string());
        }
        was_word = is_word(c);
    }
    words
}

/// Another register of the kind that a register is.
fn others(register: &str) -> Vec<String> {
    let singles = [
        &["%__rf_o", "%__rf_t", "%__rf_u", "%__rf_wb", "%__rf_ws"][..],
        &["%__rf_q", "%__rf_r", "%__rf_covered"],
        &[
            "%__rf_byte",
            "%__rf_byte2",
            "%__rf_last",
            "%__rf_piece",
            "%__rf_first",
            "%__rf_pieces",
        ],
        &["%__rf_record_base", "%__rf_record_size", "%__rf_address"],
        &["%__rf_record_word", "%__rf_record_part"],
        &["%__rf_rb", "%__rf_rs"],
        &["%__rf_p", "%__rf_d", "%__rf_l"],
        &["%__rf_dynamic", "%__rf_block"],
    ];
    for family in singles {
        if family.contains(&register) {
            let others = family.iter().filter(|other| **other != register);
            return others.map(|other| (*other).to_owned()).collect();
        }
    }
    let digits = register.len()
        - register
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .len();
    let (name, number) = register.split_at(register.len() - digits);
    let Ok(number) = number.parse::<u32>() else {
        return Vec::new();
    };
    let mut others = vec![format!("{name}{}", number + 1)];
    if number > 0 {
        others.push(format!("{name}{}", number - 1));
    }
    let pair = [
        ("%__rf_b", "%__rf_s"),
        ("%__rf_hb", "%__rf_hs"),
        ("%__rf_c", "%__rf_e"),
    ];
    for (one, other) in pair {
        if name == one {
            others.push(format!("{other}{number}"));
        } else if name == other {
            others.push(format!("{one}{number}"));
        }
    }
    others
}

fn opcodes(opcode: &str) -> Vec<String> {
    let changes = [
        ("setp.ge", "setp.gt"),
        ("setp.ge", "setp.lt"),
        ("setp.gt", "setp.ge"),
        ("setp.ne", "setp.eq"),
        ("setp.eq", "setp.ne"),
        ("setp.lt", "setp.le"),
        ("setp.le", "setp.lt"),
        (".and.u", ".or.u"),
        (".or.u", ".and.u"),
        (".or.s", ".and.s"),
        (".and.s", ".or.s"),
        ("max.u", "min.u"),
        ("max.u", "max.s"),
        ("sub.s", "add.s"),
        ("add.s", "sub.s"),
        (".u64", ".s64"),
        (".u32", ".s32"),
        ("and.pred", "or.pred"),
        ("or.pred", "and.pred"),
        ("xor.pred", "or.pred"),
        ("vote.sync.any", "vote.sync.all"),
        ("ld.b64", "ld.b32"),
        ("st.b64", "st.b32"),
        ("cvta.shared", "cvta.local"),
        ("cvta.local", "cvta.shared"),
        ("cvta.const", "cvta.shared"),
        ("isspacep.local", "isspacep.shared"),
        ("cvt.u64.u32", "cvt.s64.s32"),
        ("mul.wide.u32", "mul.wide.s32"),
    ];
    let changed = changes.iter().filter(|(from, _)| opcode.contains(from));
    changed
        .map(|(from, to)| opcode.replacen(from, to, 1))
        .collect()
}

/// All defects of one line, which the next follows.
fn defects(line: &str, next: Option<&str>) -> Vec<Defect> {
    let mut defects = Vec::new();
    let mut one = |kind, lines: Vec<String>, replaces| {
        defects.push(Defect {
            kind,
            lines,
            replaces,
        });
    };
    one(Kind::LeftOut, Vec::new(), 1);
    if let Some(next) = next
        && next.trim() != line.trim()
    {
        one(Kind::Exchanged, vec![next.to_owned(), line.to_owned()], 2);
    }
    let all = words(line);
    let mut changed = |kind, place: usize, word: String| {
        let mut all = all.clone();
        all[place] = word;
        one(kind, vec![all.concat()], 1);
    };
    let is_declaration = line.trim_start().starts_with('.');
    let starts_with_guard = line.trim_start().starts_with('@');
    let mut is_opcode_behind = !starts_with_guard;
    for (place, word) in all.iter().enumerate() {
        if word.trim().is_empty() {
            continue;
        }
        if word == "!" {
            changed(Kind::Guard, place, String::new());
        } else if word.starts_with('%') {
            if starts_with_guard && !is_opcode_behind && place > 0 && all[place - 1] == "@" {
                changed(Kind::Guard, place, format!("!{word}"));
            }
            for other in others(word) {
                changed(Kind::Register, place, other);
            }
            is_opcode_behind = true;
        } else if word.starts_with(|c: char| c.is_ascii_digit()) {
            if let Ok(number) = word.parse::<i64>() {
                for other in [1, -1, number.max(16)].map(|by| number.wrapping_add(by)) {
                    changed(Kind::Number, place, other.to_string());
                }
            }
        } else if word.starts_with(|c: char| c.is_ascii_lowercase()) && !is_declaration {
            for other in opcodes(word) {
                changed(Kind::Opcode, place, other);
            }
        }
    }
    // Operands in another order.
    if !is_declaration && let Some((head, operands)) = line.split_once(' ').map(|_| split(line)) {
        for at in 1..operands.len() {
            if operands[at] != operands[at - 1] {
                let mut swapped = operands.clone();
                swapped.swap(at, at - 1);
                one(
                    Kind::Order,
                    vec![format!("{head} {};", swapped.join(", "))],
                    1,
                );
            }
        }
    }
    defects
}

/// The part of a line before its operands, and these.
fn split(line: &str) -> (String, Vec<String>) {
    let line = line.trim().trim_end_matches(';');
    let at = match line.strip_prefix('@') {
        Some(rest) => 1 + rest.find(' ').unwrap_or(0) + 1,
        None => 0,
    };
    let opcode_end = line[at..].find(' ').map_or(line.len(), |end| at + end);
    let (head, operands) = line.split_at(opcode_end);
    let mut list = vec![String::new()];
    let mut depth = 0;
    for c in operands.trim().chars() {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                list.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = list.last_mut() {
            last.push(c);
        }
    }
    let list = list.iter().map(|o| o.trim().to_owned()).collect();
    (head.to_owned(), list)
}

/// Registers that a line may write, and all that it names.
fn registers(line: &str) -> (Vec<String>, Vec<String>) {
    let all: Vec<String> = words(line)
        .into_iter()
        .filter(|word| word.starts_with('%'))
        .collect();
    let (_, operands) = split(line);
    let is_memory = |first: &&String| first.starts_with('[');
    let first = operands.first().filter(|first| !is_memory(first));
    let first = first.map(|first| words(first)).unwrap_or_default();
    let written = first
        .into_iter()
        .filter(|word| word.starts_with('%'))
        .collect();
    (written, all)
}

/// Why a defect is none, if it is none.
fn reason(lines: &[&str], place: usize, defect: &Defect) -> Option<&'static str> {
    let (line, next) = (lines[place].trim(), lines.get(place + 1).copied());
    let (written, _) = registers(line);
    // The rest of the same body.
    let is_end = |line: &&&str| !line.starts_with('}');
    let above = lines[..place].iter().rev().take_while(is_end);
    let below = lines[place + 1..].iter().take_while(is_end);
    let is_read = |register: &String| {
        let mut body = above.clone().chain(below.clone());
        body.any(|line| {
            let (written, all) = registers(line);
            !line.trim().starts_with(".reg") && all.len() > written.len() && {
                let read = all.iter().skip(usize::from(!line.trim().starts_with('@')));
                let mut read = read.filter(|name| *name == register);
                read.next().is_some()
            }
        })
    };
    let is_dead = written.len() == 1 && !is_read(&written[0]);
    // The register has this value already, set by the same line.
    let segment = above.clone().take_while(|line| line.contains("__rf_"));
    let is_repeated = segment.clone().any(|above| above.trim() == line);
    match defect.kind {
        Kind::Exchanged => {
            let next = next?.trim();
            let is_plain = |line: &str| {
                let control = [
                    "bra", "call", "ret", "exit", "trap", "{", "}", "bar", "vote",
                ];
                let words = words(line);
                !line.ends_with(':')
                    && !words.iter().any(|word| control.contains(&word.as_str()))
                    && !line.starts_with("//")
            };
            let ((writes, names), (next_writes, next_names)) = (registers(line), registers(next));
            let apart = |writes: &[String], names: &[String]| {
                !writes.iter().any(|register| names.contains(register))
            };
            let declares = |line: &str| {
                let is_comment = line.starts_with("//");
                is_comment || line.starts_with('.') || line.contains(".callprototype")
            };
            let is_declaration = declares(line) && declares(next)
                || line.starts_with("st.param") && next.contains(".callprototype")
                || next.starts_with("//");
            let is_independent = is_plain(line)
                && is_plain(next)
                && apart(&writes, &next_names)
                && apart(&next_writes, &names);
            // Under the verdict, a result may be set behind the access, too.
            let is_result = line.starts_with("@%__rf_")
                && line.ends_with(", 0;")
                && next.contains("%__rf_g")
                && writes.len() == 1
                && next_writes.contains(&writes[0]);
            match () {
                () if is_declaration || is_independent => Some("neither line needs the other"),
                () if is_result => Some("the result is set behind the access"),
                () => None,
            }
        }
        Kind::LeftOut if line.starts_with(".reg") => {
            Some("registers that are not used are declared")
        }
        _ if is_dead => Some("nothing reads what the line writes"),
        Kind::Order if ["or.pred", "and.pred"].iter().any(|o| line.contains(o)) => {
            Some("either order means the same")
        }
        Kind::LeftOut | Kind::Register if is_repeated => {
            Some("the register has that value already")
        }
        Kind::Number if line.starts_with("selp.b64 %__rf_a") => Some("another place in the sink"),
        Kind::Number if line.starts_with(".reg") => {
            Some("more registers, or no fewer than are used")
        }
        Kind::Register if line.starts_with(".reg") => {
            Some("registers that are not used are declared")
        }
        _ => None,
    }
}

fn verified(
    (source, entries, shadow): (&str, &[EntryPlan], Option<Encoding>),
    lines: &[&str],
    place: usize,
    defect: &Defect,
) -> bool {
    let mut text = String::new();
    let mut push = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    lines[..place].iter().for_each(|line| push(line));
    defect.lines.iter().for_each(|line| push(line));
    lines[place + defect.replaces..]
        .iter()
        .for_each(|line| push(line));
    match shadow {
        Some(encoding) => instrument::verify_shadow(source, &text, encoding).is_ok(),
        None => instrument::verify(source, &text, entries).is_ok(),
    }
}

/// What became of defects.
#[derive(Default)]
struct Tally {
    /// Those made, and of these, those refused.
    counts: BTreeMap<Kind, (u32, u32)>,
    reasons: BTreeMap<&'static str, u32>,
    /// Those that are accepted and no harmless ones.
    accepted: BTreeSet<String>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        for (kind, (made, refused)) in other.counts {
            let count = self.counts.entry(kind).or_default();
            *count = (count.0 + made, count.1 + refused);
        }
        for (reason, number) in other.reasons {
            *self.reasons.entry(reason).or_default() += number;
        }
        self.accepted.extend(other.accepted);
    }

    /// Makes all defects of a file.
    fn judge(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let file = std::fs::read_to_string(path).expect("a readable file");
        let source = module_of(&file);
        let shadow = file
            .lines()
            .find_map(|line| line.strip_prefix("// SHADOW: "));
        let shadow = shadow.map(|text| text.parse::<Encoding>().expect("an encoding"));
        let good = match shadow {
            Some(encoding) => common::shadow(&name, &source, encoding),
            None => common::instrument(&name, &source),
        };
        let lines: Vec<&str> = good.text.lines().collect();
        let own = inserted(&good.text).into_iter().map(|place| (place, false));
        let program = programs(&good.text).into_iter().map(|place| (place, true));
        for (place, is_program) in own.chain(program) {
            let next = lines.get(place + 1).copied();
            let mut all = defects(lines[place], next);
            if is_program {
                all.retain(|defect| matches!(defect.kind, Kind::LeftOut | Kind::Exchanged));
            }
            for defect in all {
                let count = self.counts.entry(defect.kind).or_default();
                count.0 += 1;
                if !verified((&source, &good.entries, shadow), &lines, place, &defect) {
                    count.1 += 1;
                } else if let Some(reason) = reason(&lines, place, &defect) {
                    *self.reasons.entry(reason).or_default() += 1;
                } else {
                    self.accepted.insert(format!(
                        "{name}:{}: {:?}: `{}` as `{}`",
                        place + 1,
                        defect.kind,
                        lines[place].trim(),
                        defect.lines.join(" ").trim()
                    ));
                }
            }
        }
    }
}

#[test]
fn every_defect_of_a_line_is_refused() {
    let folder = common::root().join("crates/instrument/filetests");
    let only = std::env::var("RINGFENCE_MUTATE").ok();
    let mut files = common::files(&folder, "ptx");
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        only.as_ref().is_none_or(|only| name.contains(only))
    });
    // The large ones take longest.
    files.sort_by_key(|path| std::cmp::Reverse(path.metadata().map_or(0, |file| file.len())));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut tally = Tally::default();
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            tally.judge(path);
        }
        tally
    };
    let mut all = Tally::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            all.add(worker.join().expect("a worker that ends"));
        }
    });
    let Tally {
        counts,
        reasons,
        accepted,
    } = all;
    let made: u32 = counts.values().map(|(made, _)| made).sum();
    assert!(only.is_some() || made > 20_000, "only {made} defects");
    println!("defects made and refused: {counts:?}; harmless: {reasons:?}");
    let list: Vec<String> = accepted.into_iter().collect();
    assert!(
        list.is_empty(),
        "{} accepted:\n{}",
        list.len(),
        list.join("\n")
    );
}

/// A module of the filetests, and what is made of it.
fn instrumented(name: &str) -> (String, Instrumented) {
    let path = common::root().join(format!("crates/instrument/filetests/{name}.ptx"));
    let source = module_of(&std::fs::read_to_string(path).expect("a readable file"));
    let good = common::instrument(name, &source);
    (source, good)
}

/// Whether the verifier refuses a change of what was made.
fn is_refused(source: &str, good: &Instrumented, change: &dyn Fn(&mut Instrumented)) -> bool {
    let mut broken = good.clone();
    change(&mut broken);
    instrument::verify_output(source, &broken).is_err()
}

#[test]
fn tables_that_do_not_fit_the_text_are_refused() {
    let (source, good) = instrumented("several");
    let entry = good.entries.iter().position(|entry| entry.roots.len() > 1);
    let entry = entry.expect("an entry with two pointers");
    let broken = |change: &dyn Fn(&mut Instrumented)| is_refused(&source, &good, change);
    assert!(!broken(&|_| {}));
    assert!(broken(&|done| done.tag += 1));
    assert!(broken(&|done| drop(done.sites.pop())));
    assert!(broken(&|done| done.entries[entry].roots.swap(0, 1)));
    assert!(broken(&|done| done.entries[entry].roots.truncate(1)));
}

#[test]
fn limits_that_are_others_than_the_checks_expect_are_refused() {
    let (source, good) = instrumented("groups");
    let entry = good.entries.iter().position(|entry| entry.limits.len() > 1);
    let entry = entry.expect("an entry with two limits");
    let broken = |change: &dyn Fn(&mut Instrumented)| is_refused(&source, &good, change);
    assert!(!broken(&|_| {}));
    let limits = good.entries[entry].limits.len();
    assert!(broken(&|done| done.entries[entry]
        .limits
        .truncate(limits - 1)));
    let changes: [fn(&mut instrument::LaunchLimit); 6] = [
        |limit| limit.root ^= 1,
        |limit| limit.root += 9,
        |limit| limit.less += 1,
        |limit| limit.less = 0,
        |limit| limit.alignment *= 2,
        |limit| limit.residue += 1,
    ];
    for (change, limit) in changes
        .iter()
        .flat_map(|c| (0..limits).map(move |l| (c, l)))
    {
        let is_refused = broken(&|done| change(&mut done.entries[entry].limits[limit]));
        assert!(is_refused, "{:?}", good.entries[entry].limits[limit]);
    }
}

#[test]
fn ranges_that_are_others_than_the_checks_expect_are_refused() {
    let (source, good) = instrumented("indexed");
    let broken = |change: &dyn Fn(&mut Instrumented)| is_refused(&source, &good, change);
    assert!(!broken(&|_| {}));
    let ranges = good.entries[0].indices.len();
    assert_eq!(ranges, 3);
    assert!(broken(&|done| done.entries[0].indices.truncate(2)));
    assert!(broken(&|done| done.entries[0].indices.swap(0, 1)));
    let changes: [fn(&mut instrument::LaunchIndex); 9] = [
        |index| index.root ^= 1,
        |index| index.root += 9,
        |index| index.scale += 1,
        |index| index.is_signed = !index.is_signed,
        |index| index.first += 1,
        |index| index.less += 1,
        |index| index.less = 0,
        |index| index.alignment *= 2,
        |index| index.residue += 1,
    ];
    for (change, index) in changes
        .iter()
        .flat_map(|c| (0..ranges).map(move |index| (c, index)))
    {
        let is_refused = broken(&|done| change(&mut done.entries[0].indices[index]));
        assert!(is_refused, "{:?}", good.entries[0].indices[index]);
    }
}

#[test]
fn checks_of_other_indices_are_refused() {
    let (source, good) = instrumented("indexed");
    let broken = |from: &str, to: &str| {
        assert!(good.text.contains(from), "{from}");
        is_refused(&source, &good, &|done| {
            done.text = done.text.replacen(from, to, 1);
        })
    };
    let compares = "sub.s32 %__rf_d, %r2, %__rf_i1;";
    assert!(!broken(compares, compares));
    assert!(broken(compares, "sub.s32 %__rf_d, %r1, %__rf_i1;"));
    assert!(broken(compares, "sub.s32 %__rf_d, %r2, %__rf_i0;"));
    assert!(broken(compares, "add.s32 %__rf_d, %r2, %__rf_i1;"));
    let below = "setp.gt.u32 %__rf_k1, %__rf_d, %__rf_in1;";
    assert!(broken(below, "setp.gt.u32 %__rf_k1, %__rf_d, %__rf_in0;"));
    assert!(broken(below, "setp.ge.u32 %__rf_k1, %__rf_d, %__rf_in1;"));
    assert!(broken(below, "setp.gt.s32 %__rf_k1, %__rf_d, %__rf_in1;"));
    let keeps = "@%__rf_k1 mov.b64 %__rf_address, %rd7;";
    assert!(broken(keeps, "@%__rf_k1 mov.b64 %__rf_address, %rd4;"));
    assert!(broken(keeps, ""));
    let loads = "ld.param.b32 %__rf_i1, [__ringfence_launch+72];";
    assert!(broken(
        loads,
        "ld.param.b32 %__rf_i1, [__ringfence_launch+64];"
    ));
    assert!(broken(loads, ""));
}

#[test]
fn branches_of_a_copy_go_where_those_of_its_loop_go() {
    let (source, good) = instrumented("ahead_grid");
    let broken = |from: &str, to: &str| {
        assert_eq!(good.text.matches(from).count(), 1, "{from}");
        is_refused(&source, &good, &|done| {
            done.text = done.text.replace(from, to)
        })
    };
    let skips = "@%p2 bra $__rf_quick11_skip;";
    assert!(!broken(skips, skips));
    assert!(broken(skips, "@%p2 bra $__rf_quick11;"));
    assert!(broken(skips, "@%p2 bra $skip;"));
    let goes_on = "@%p3 bra $__rf_quick11;";
    assert!(broken(goes_on, "@%p3 bra $loop;"));
    assert!(broken(goes_on, "@%p3 bra $__rf_quick11_skip;"));
}
