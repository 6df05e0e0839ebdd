//! How the value of a setting is read from text and written as text.

use super::{CanaryPattern, MemoryBudget};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The spelling of values of type `T`.
pub(crate) trait Form<T> {
    /// What is expected, for messages and documents: `on or off`.
    fn expected(&self) -> String;
    /// The value that a text means.
    fn parse(&self, text: &str) -> Option<T>;
    /// The text that means a value; `None`: no value is set.
    fn text(&self, value: &T) -> Option<String>;
}

/// A setting without a default value.
pub(crate) struct Unset<F>(pub F);

impl<T, F: Form<T>> Form<Option<T>> for Unset<F> {
    fn expected(&self) -> String {
        self.0.expected()
    }

    fn parse(&self, text: &str) -> Option<Option<T>> {
        self.0.parse(text).map(Some)
    }

    fn text(&self, value: &Option<T>) -> Option<String> {
        value.as_ref().and_then(|value| self.0.text(value))
    }
}

/// One of a few values, each with its names: the first is the usual one.
pub(crate) struct Words<T: 'static>(pub &'static [(T, &'static [&'static str])]);

impl<T: Copy + PartialEq> Form<T> for Words<T> {
    fn expected(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|(_, names)| names[0]).collect();
        enumerate(&names, "or")
    }

    fn parse(&self, text: &str) -> Option<T> {
        let mut rows = self.0.iter();
        let found = rows.find(|(_, names)| names.contains(&text));
        found.map(|(value, _)| *value)
    }

    fn text(&self, value: &T) -> Option<String> {
        let mut rows = self.0.iter();
        let found = rows.find(|(known, _)| known == value);
        found.map(|(_, names)| names[0].to_owned())
    }
}

/// Names of `true`.
pub(crate) const ON: &[&str] = &["on", "1", "yes", "true"];
/// Names of `false`.
pub(crate) const OFF: &[&str] = &["off", "0", "no", "false"];
/// On or off.
pub(crate) const SWITCH: Words<bool> = Words(&[(true, ON), (false, OFF)]);

/// Several names with commas between them, each of which switches something on.
pub(crate) struct Flags<T: 'static> {
    /// Nothing is switched on.
    pub none: T,
    /// A name for everything.
    pub all: Option<(&'static str, T)>,
    /// The names.
    pub flags: &'static [Flag<T>],
}

/// One of [`Flags`].
pub(crate) struct Flag<T: 'static> {
    pub name: &'static str,
    pub get: fn(&T) -> bool,
    pub set: fn(&mut T),
    /// It takes something away: where only such are named, it is from everything.
    pub lessens: bool,
}

/// The [`Flags`] of a struct's fields of type `bool`, which have their names, unless
/// others are given; behind `less`, those that take something away.
macro_rules! flags {
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@flag $lessens:literal, $field:ident $($name:literal)?) => {
        $crate::settings::form::Flag {
            name: $crate::settings::form::flags!(@name $field $($name)?),
            get: |value| value.$field,
            set: |value| value.$field = true,
            lessens: $lessens,
        }
    };
    ($($field:ident $(= $name:literal)?),+ $(; less $($less:ident $(= $word:literal)?),+)?) => {
        &[
            $( $crate::settings::form::flags!(@flag false, $field $($name)?) ),+
            $(, $( $crate::settings::form::flags!(@flag true, $less $($word)?) ),+ )?
        ]
    };
}
pub(crate) use flags;

impl<T: Copy + PartialEq> Form<T> for Flags<T> {
    fn expected(&self) -> String {
        let names: Vec<&str> = self.flags.iter().map(|flag| flag.name).collect();
        let list = format!("a list of {}", enumerate(&names, "and"));
        match &self.all {
            Some((all, _)) => format!("{all}, or {list}"),
            None => format!("{list}, with commas between them"),
        }
    }

    fn parse(&self, text: &str) -> Option<T> {
        let is_all = |name: &str| self.all.as_ref().is_some_and(|(all, _)| *all == name);
        let (all, names): (Vec<&str>, Vec<&str>) = text
            .split(',')
            .map(str::trim)
            .partition(|name| is_all(name));
        let flag = |name: &&str| self.flags.iter().find(|flag| flag.name == *name);
        let flags: Vec<&Flag<T>> = names.iter().map(flag).collect::<Option<_>>()?;
        let is_less = !all.is_empty() || flags.iter().all(|flag| flag.lessens);
        let mut value = match &self.all {
            Some((_, everything)) if is_less => *everything,
            _ => self.none,
        };
        flags.iter().for_each(|flag| (flag.set)(&mut value));
        Some(value)
    }

    fn text(&self, value: &T) -> Option<String> {
        match &self.all {
            Some((all, everything)) if everything == value => Some((*all).to_owned()),
            _ => {
                let on = self.flags.iter().filter(|flag| (flag.get)(value));
                Some(on.map(|flag| flag.name).collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// A number within bounds.
pub(crate) struct Number<T> {
    /// What it is, with its article.
    pub what: &'static str,
    /// The smallest and the largest.
    pub range: RangeInclusive<T>,
}

/// Any number of eight bits.
pub(crate) const U8: Number<u8> = Number {
    what: "a number",
    range: 0..=u8::MAX,
};
/// Any number of 32 bits.
pub(crate) const U32: Number<u32> = Number {
    what: "a number",
    range: 0..=u32::MAX,
};
/// Any number of 64 bits.
pub(crate) const U64: Number<u64> = Number {
    what: "a number",
    range: 0..=u64::MAX,
};

impl<T: FromStr + PartialOrd + Display> Form<T> for Number<T> {
    fn expected(&self) -> String {
        let (least, most) = (self.range.start(), self.range.end());
        format!("{} from {least} to {most}", self.what)
    }

    fn parse(&self, text: &str) -> Option<T> {
        text.parse().ok().filter(|value| self.range.contains(value))
    }

    fn text(&self, value: &T) -> Option<String> {
        Some(value.to_string())
    }
}

/// A time in whole milliseconds.
pub(crate) struct Milliseconds(pub RangeInclusive<u64>);

impl Milliseconds {
    fn number(&self) -> Number<u64> {
        Number {
            what: "milliseconds",
            range: self.0.clone(),
        }
    }
}

impl Form<Duration> for Milliseconds {
    fn expected(&self) -> String {
        self.number().expected()
    }

    fn parse(&self, text: &str) -> Option<Duration> {
        self.number().parse(text).map(Duration::from_millis)
    }

    fn text(&self, value: &Duration) -> Option<String> {
        Some(value.as_millis().to_string())
    }
}

/// A number of bytes, with a suffix for powers of 1024.
pub(crate) struct Bytes(pub RangeInclusive<u64>);

const SUFFIXES: [(&str, u32); 4] = [("g", 30), ("m", 20), ("k", 10), ("", 0)];

impl Form<u64> for Bytes {
    fn expected(&self) -> String {
        let range = match (*self.0.start(), *self.0.end()) {
            (0, u64::MAX) => String::new(),
            (least, most) => format!(" from {} to {}", in_bytes(least), in_bytes(most)),
        };
        format!("a number of bytes{range}, with k, m or g for powers of 1024")
    }

    fn parse(&self, text: &str) -> Option<u64> {
        let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
        let suffix = text[digits.len()..].to_ascii_lowercase();
        let (_, shift) = SUFFIXES.iter().find(|(known, _)| *known == suffix)?;
        let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
        self.0.contains(&bytes).then_some(bytes)
    }

    fn text(&self, value: &u64) -> Option<String> {
        Some(in_bytes(*value))
    }
}

/// A number of bytes with the largest suffix that leaves it whole.
fn in_bytes(bytes: u64) -> String {
    let fits = |shift: u32| bytes != 0 && bytes.trailing_zeros() >= shift;
    let mut suffixes = SUFFIXES.iter();
    match suffixes.find(|(_, shift)| fits(*shift)) {
        Some((suffix, shift)) => format!("{}{suffix}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// Bytes of device memory, or a percentage of it.
pub(crate) struct Budget;

impl Form<MemoryBudget> for Budget {
    fn expected(&self) -> String {
        let bytes = Form::<u64>::expected(&Bytes(0..=u64::MAX));
        format!("{bytes}, or a percentage of the device's memory such as 25%")
    }

    fn parse(&self, text: &str) -> Option<MemoryBudget> {
        let Some(percent) = text.strip_suffix('%') else {
            return Bytes(0..=u64::MAX).parse(text).map(MemoryBudget::Bytes);
        };
        let percent = percent.parse().ok().filter(|percent| *percent <= 100)?;
        Some(MemoryBudget::Percent(percent))
    }

    fn text(&self, value: &MemoryBudget) -> Option<String> {
        Some(match value {
            MemoryBudget::Bytes(bytes) => in_bytes(*bytes),
            MemoryBudget::Percent(percent) => format!("{percent}%"),
        })
    }
}

/// A text that is not empty; what it is, with its article.
pub(crate) struct Text(pub &'static str);

/// A name of a file.
pub(crate) const FILE: Unset<Text> = Unset(Text("a file name"));

impl Form<String> for Text {
    fn expected(&self) -> String {
        self.0.to_owned()
    }

    fn parse(&self, text: &str) -> Option<String> {
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn text(&self, value: &String) -> Option<String> {
        Some(value.clone())
    }
}

impl Form<PathBuf> for Text {
    fn expected(&self) -> String {
        self.0.to_owned()
    }

    fn parse(&self, text: &str) -> Option<PathBuf> {
        (!text.is_empty()).then(|| text.into())
    }

    fn text(&self, value: &PathBuf) -> Option<String> {
        value.to_str().map(str::to_owned)
    }
}

/// What canaries hold.
pub(crate) struct Pattern;

const RANDOM: &str = "random";

impl Form<CanaryPattern> for Pattern {
    fn expected(&self) -> String {
        format!("{RANDOM}, or a byte such as 0xC2")
    }

    fn parse(&self, text: &str) -> Option<CanaryPattern> {
        if text == RANDOM {
            return Some(CanaryPattern::Random);
        }
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let byte = match digits {
            Some(digits) => u8::from_str_radix(digits, 16).ok()?,
            None => text.parse().ok()?,
        };
        Some(CanaryPattern::Byte(byte))
    }

    fn text(&self, value: &CanaryPattern) -> Option<String> {
        Some(match value {
            CanaryPattern::Random => RANDOM.to_owned(),
            CanaryPattern::Byte(byte) => format!("{byte:#04x}"),
        })
    }
}

/// `a, b or c`.
fn enumerate(names: &[&str], last: &str) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [names @ .., name] => format!("{} {last} {name}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_suffixes() {
        for (text, bytes, again) in [
            ("0", Some(0), "0"),
            ("4096", Some(4096), "4k"),
            ("4097", Some(4097), "4097"),
            ("64k", Some(64 << 10), "64k"),
            ("512M", Some(512 << 20), "512m"),
            ("2g", Some(2 << 30), "2g"),
            ("2t", None, ""),
            ("g", None, ""),
            ("99999999999g", None, ""),
        ] {
            let form = Bytes(0..=u64::MAX);
            let read = form.parse(text);
            assert_eq!(read, bytes, "{text}");
            let written = read.map_or(String::new(), |bytes| form.text(&bytes).unwrap());
            assert_eq!(written, again, "{text}");
        }
    }

    #[test]
    fn budgets_are_bytes_or_a_percentage() {
        for (text, budget, again) in [
            ("25%", Some(MemoryBudget::Percent(25)), "25%"),
            ("0%", Some(MemoryBudget::Percent(0)), "0%"),
            ("8g", Some(MemoryBudget::Bytes(8 << 30)), "8g"),
            ("101%", None, ""),
            ("-1%", None, ""),
            ("%", None, ""),
            ("8x", None, ""),
        ] {
            assert_eq!(Budget.parse(text), budget, "{text}");
            let written = budget.and_then(|budget| Budget.text(&budget));
            assert_eq!(written.unwrap_or_default(), again);
        }
        assert_eq!(MemoryBudget::Percent(25).of(1000), 250);
        assert_eq!(MemoryBudget::Bytes(7).of(1000), 7);
    }

    #[test]
    fn what_is_expected_is_said_in_words() {
        assert_eq!(SWITCH.expected(), "on or off");
        assert_eq!(U8.expected(), "a number from 0 to 255");
        assert_eq!(
            Bytes(16..=1 << 30).expected(),
            "a number of bytes from 16 to 1g, with k, m or g for powers of 1024"
        );
    }
}
