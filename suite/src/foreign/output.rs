//! Whether two runs of a program wrote the same, apart from what differs
//! between any two runs.
//!
//! The reference runs twice. Words in which its two runs differ are masked, and
//! so are addresses, and numbers in lines about time or rates. If the two runs
//! have different numbers of lines, the lines that both have must be present.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What may differ, learned from two runs of the reference.
#[derive(Clone, Debug)]
pub struct Expected {
    lines: Vec<Vec<Word>>,
    /// The two runs have the same number of lines.
    in_order: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Fixed(String),
    Any,
}

/// The first difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Line of the reference; empty if it has none there.
    pub expected: String,
    /// Line of the run.
    pub got: String,
}

/// Parts of words about time or rates.
const TIMES: &[&str] = &[
    "time",
    "second",
    "elapsed",
    "duration",
    "latency",
    "bandwidth",
    "throughput",
    "flop",
    "/s",
    "speedup",
    "performance",
    "cycles",
    "fps",
    "overhead",
    "per sec",
    "took",
];

/// Units that make the number before them, or with them, one of time or rate.
const UNITS: &[&str] = &[
    "s", "ms", "us", "ns", "sec", "secs", "msec", "usec", "(s)", "(ms)", "(us)", "(ns)", "(sec)",
    "[s]", "[ms]", "[us]",
];

/// Steps of a program whose times are lines by themselves: `HtoD: 0.51`.
const STEPS: &[&str] = &["memalloc", "htod", "exec", "dtoh", "close"];

/// Whether a line is the time of a step.
fn is_step(line: &str) -> bool {
    line.split_once(':').is_some_and(|(step, time)| {
        STEPS.contains(&step.trim()) && time.trim().parse::<f64>().is_ok()
    })
}

/// A line as words that are equal in runs that do the same.
fn words(line: &str) -> Vec<Word> {
    let lower = line.to_ascii_lowercase();
    let timed = TIMES.iter().any(|part| lower.contains(part))
        || is_step(&lower)
        || lower
            .split(|c: char| c.is_whitespace() || ",;:=".contains(c))
            .any(|word| UNITS.contains(&word));
    split(line)
        .map(|word| match word {
            number if timed && is_number(number) => Word::Any,
            address if is_address(address) => Word::Any,
            other => Word::Fixed(other.to_owned()),
        })
        .collect()
}

/// The words of a line; what holds numbers together is apart.
fn split(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c.is_whitespace() || ",;:=()[]{}|/".contains(c))
        .filter(|word| !word.is_empty())
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        || ["nan", "inf", "-nan", "-inf"].contains(&word)
}

/// A word of hexadecimal digits that is as long as addresses are.
fn is_address(word: &str) -> bool {
    word.strip_prefix("0x")
        .is_some_and(|digits| digits.len() >= 8 && digits.chars().all(|c| c.is_ascii_hexdigit()))
}

impl Expected {
    /// What two runs of the reference have in common.
    pub fn new(first: &str, second: &str) -> Expected {
        let lines = |text: &str| text.lines().map(words).collect::<Vec<_>>();
        let (first, second) = (lines(first), lines(second));
        if first.len() == second.len() {
            let lines = first.iter().zip(&second).map(|(a, b)| common(a, b));
            return Expected {
                lines: lines.collect(),
                in_order: true,
            };
        }
        let mut have = counts(&second);
        let both = first.into_iter().filter(|line| take(&mut have, line));
        Expected {
            lines: both.collect(),
            in_order: false,
        }
    }

    /// The first line of `text` that is not as expected.
    pub fn difference(&self, text: &str) -> Option<Difference> {
        let raw: Vec<&str> = text.lines().collect();
        if !self.in_order {
            let lines: Vec<_> = raw.iter().map(|line| words(line)).collect();
            let mut have = counts(&lines);
            let missing = self.lines.iter().find(|line| !take(&mut have, line))?;
            return Some(Difference {
                expected: show(missing),
                got: String::new(),
            });
        }
        let most = self.lines.len().max(raw.len());
        (0..most).find_map(|at| {
            let (expected, got) = (self.lines.get(at), raw.get(at));
            let same = match (expected, got) {
                (Some(expected), Some(got)) => fits(expected, &words(got)),
                _ => false,
            };
            (!same).then(|| Difference {
                expected: expected.map(|line| show(line)).unwrap_or_default(),
                got: got.map(|line| (*line).to_owned()).unwrap_or_default(),
            })
        })
    }
}

/// A line of which nothing counts: it has no words in common with its twin.
fn is_free(line: &[Word]) -> bool {
    line.len() == 1 && line[0] == Word::Any
}

fn common(a: &[Word], b: &[Word]) -> Vec<Word> {
    if a.len() != b.len() {
        return vec![Word::Any];
    }
    let both = a.iter().zip(b);
    both.map(|(a, b)| if a == b { a.clone() } else { Word::Any })
        .collect()
}

fn fits(expected: &[Word], got: &[Word]) -> bool {
    is_free(expected)
        || expected.len() == got.len()
            && expected
                .iter()
                .zip(got)
                .all(|(expected, got)| *expected == Word::Any || expected == got)
}

fn show(line: &[Word]) -> String {
    let words: Vec<&str> = line
        .iter()
        .map(|word| match word {
            Word::Fixed(text) => text.as_str(),
            Word::Any => "*",
        })
        .collect();
    words.join(" ")
}

fn counts(lines: &[Vec<Word>]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(show(line)).or_default() += 1;
    }
    counts
}

fn take(have: &mut BTreeMap<String, usize>, line: &[Word]) -> bool {
    match have.get_mut(&show(line)) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Expected;

    fn same(first: &str, second: &str, other: &str) -> bool {
        Expected::new(first, second).difference(other).is_none()
    }

    #[test]
    fn times_addresses_and_what_differs_by_itself_are_masked() {
        let one = "Average kernel time: 3.2 (us)\nsum = 17\nseed 4\nat 0x7f0011223344\n";
        let two = "Average kernel time: 3.2 (us)\nsum = 17\nseed 5\nat 0x7f0011223344\n";
        let run = "Average kernel time: 9 (us)\nsum = 17\nseed 6\nat 0x7faa11223344\n";
        assert!(same(one, two, run));
        let wrong = run.replace("17", "18");
        let difference = Expected::new(one, two).difference(&wrong).unwrap();
        assert_eq!(difference.expected, "sum 17");
        assert_eq!(difference.got, "sum = 18");
    }

    #[test]
    fn words_around_a_time_still_count() {
        assert!(!same("PASS in 3 ms", "PASS in 4 ms", "FAIL in 3 ms"));
        assert!(same("PASS in 3 ms", "PASS in 3 ms", "PASS in 5 ms"));
        assert!(!same("checksum 3", "checksum 3", "checksum 5"));
        assert!(same("HtoD: 0.5", "HtoD: 0.5", "HtoD: 0.7"));
        assert!(!same("HtoD: 0.5 17", "HtoD: 0.5 17", "HtoD: 0.7 18"));
    }

    #[test]
    fn lines_that_are_missing_or_too_many_are_differences() {
        assert!(!same("a\nb\n", "a\nb\n", "a\n"));
        assert!(!same("a\n", "a\n", "a\nb\n"));
        // The reference itself is free in what it adds.
        assert!(same("a\nx\nb\n", "a\nb\n", "b\nq\na\n"));
        assert!(!same("a\nx\nb\n", "a\nb\n", "b\nq\n"));
    }

    #[test]
    fn a_line_that_never_is_the_same_is_free() {
        assert!(same("run 1 2 3\nend", "other\nend", "anything at all\nend"));
    }
}
