//! Units of memory, their names, and the slice that a set of them is.

use protocol::SLICE_NAME_BYTES;
use std::collections::BTreeSet;

/// What the name of a slice of units begins with.
const SLICE: &str = "units-";
/// What the name of a unit begins with.
const UNIT: &str = "unit-";

/// Units at most: a slice's name has a digit for four of them.
pub const MOST_UNITS: usize = 4 * (SLICE_NAME_BYTES - SLICE.len());

/// A set of units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units(BTreeSet<usize>);

/// Names that are no set of units.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitsError {
    /// None.
    #[error("a container asks for no unit")]
    None,
    /// A name of no unit.
    #[error("there is no unit `{0}`")]
    Unknown(String),
    /// Twice the same.
    #[error("the unit `{0}` is named twice")]
    Twice(String),
}

impl Units {
    /// The units of these names.
    ///
    /// # Errors
    ///
    /// See [`UnitsError`].
    pub fn of(names: &[String]) -> Result<Units, UnitsError> {
        let mut units = BTreeSet::new();
        for name in names {
            let number = number(name).ok_or_else(|| UnitsError::Unknown(name.clone()))?;
            if !units.insert(number) {
                return Err(UnitsError::Twice(name.clone()));
            }
        }
        match units.is_empty() {
            true => Err(UnitsError::None),
            false => Ok(Units(units)),
        }
    }

    /// The name of unit `number`.
    pub fn name(number: usize) -> String {
        format!("{UNIT}{number}")
    }

    /// How many.
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a unit is in both.
    pub fn overlap(&self, other: &Units) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// The name of the slice that they are: a bit for each unit, in hexadecimal
    /// digits, of which the first one has the units 0 to 3.
    pub fn slice(&self) -> String {
        let last = self.0.last().copied().unwrap_or(0);
        let digits = (0..=last / 4).map(|digit| {
            let bit = |at: usize| u32::from(self.0.contains(&(4 * digit + at))) << at;
            char::from_digit((0..4).map(bit).sum(), 16).unwrap_or('0')
        });
        SLICE.chars().chain(digits).collect()
    }

    /// The units of a slice; `None` if its name is not one that
    /// [`Units::slice`] gives.
    pub fn of_slice(name: &str) -> Option<Units> {
        let digits = name.strip_prefix(SLICE)?;
        let mut units = BTreeSet::new();
        for (at, digit) in digits.chars().enumerate() {
            let bits = digit.to_digit(16)?;
            units.extend(
                (0..4)
                    .filter(|bit| bits >> bit & 1 == 1)
                    .map(|bit| 4 * at + bit),
            );
        }
        let units = Units(units);
        (units.len() > 0 && units.slice() == name).then_some(units)
    }
}

fn number(name: &str) -> Option<usize> {
    let digits = name.strip_prefix(UNIT)?;
    let number = digits.parse().ok()?;
    (number < MOST_UNITS && Units::name(number) == name).then_some(number)
}

/// Which of the units that are free are best: all are alike, so those that must be
/// among them, and the first others. `None` if it cannot be so many.
pub fn prefer(free: &[String], must: &[String], count: usize) -> Option<Vec<String>> {
    let mut chosen: Vec<String> = must.to_vec();
    let mut others: Vec<&String> = free.iter().filter(|name| !must.contains(name)).collect();
    others.sort_by_key(|name| number(name));
    let missing = count.checked_sub(chosen.len())?;
    chosen.extend(others.get(..missing)?.iter().map(|name| (*name).clone()));
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: &[usize]) -> Vec<String> {
        numbers.iter().map(|number| Units::name(*number)).collect()
    }

    #[test]
    fn a_slices_name_holds_its_units() {
        let all: Vec<usize> = (0..MOST_UNITS).collect();
        for numbers in [&[0][..], &[0, 1, 2, 3], &[7], &[1, 9, 130], &all] {
            let units = Units::of(&names(numbers)).unwrap();
            let name = units.slice();
            assert!(protocol::is_slice_name(&name), "{name}");
            assert_eq!(Units::of_slice(&name), Some(units));
        }
        assert_eq!(Units::of(&names(&[0, 1, 4])).unwrap().slice(), "units-31");
        for other in [
            "units-", "units-0", "units-10", "units-g", "job-1", "units-F",
        ] {
            assert_eq!(Units::of_slice(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_set_of_units_is_refused() {
        assert_eq!(Units::of(&[]), Err(UnitsError::None));
        let twice = names(&[1, 2, 1]);
        assert_eq!(Units::of(&twice), Err(UnitsError::Twice("unit-1".into())));
        let beyond = Units::name(MOST_UNITS);
        for name in [
            "",
            "unit-",
            "unit-x",
            "unit-01",
            "unit--1",
            "2",
            beyond.as_str(),
        ] {
            let error = UnitsError::Unknown(name.into());
            assert_eq!(Units::of(&[name.to_owned()]), Err(error));
        }
    }

    #[test]
    fn what_must_be_among_them_and_the_first_others_are_preferred() {
        let free = names(&[10, 9, 3, 2]);
        assert_eq!(prefer(&free, &names(&[9]), 3), Some(names(&[9, 2, 3])));
        assert_eq!(prefer(&free, &[], 4), Some(names(&[2, 3, 9, 10])));
        assert_eq!(prefer(&free, &[], 5), None);
        assert_eq!(prefer(&free, &names(&[2, 3]), 1), None);
    }
}
