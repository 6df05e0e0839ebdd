//! What a tenant was given, by small numbers. A number means nothing outside of
//! its tenant, and is not used twice.

use std::collections::BTreeMap;

/// Things by number.
pub(crate) struct Numbers<T> {
    items: BTreeMap<u32, T>,
    next: u32,
    limit: usize,
}

impl<T> Numbers<T> {
    /// None yet, and at most `limit`. The first number is `first`.
    pub(crate) fn new(first: u32, limit: usize) -> Numbers<T> {
        Numbers {
            items: BTreeMap::new(),
            next: first,
            limit,
        }
    }

    /// Whether so many more may be added.
    pub(crate) fn has_room_for(&self, count: usize) -> bool {
        self.items.len().saturating_add(count) <= self.limit
            && u32::try_from(count).is_ok_and(|count| self.next.checked_add(count).is_some())
    }

    /// Adds one; `None` if there are too many.
    pub(crate) fn add(&mut self, item: T) -> Option<u32> {
        if !self.has_room_for(1) {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.items.insert(number, item);
        Some(number)
    }

    /// What a number stands for.
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.items.get(&number)
    }

    /// As [`Numbers::get`], to be changed.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.items.get_mut(&number)
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        self.items.remove(&number)
    }

    /// All, with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &T)> {
        self.items.iter().map(|(number, item)| (*number, item))
    }

    /// All, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.values_mut()
    }

    /// Takes all out.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.items.into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_bounded_and_not_used_twice() {
        let mut numbers = Numbers::new(1, 2);
        let first = numbers.add('a');
        assert_eq!(
            (first, numbers.add('b'), numbers.add('c')),
            (Some(1), Some(2), None)
        );
        assert_eq!(numbers.remove(1), Some('a'));
        assert_eq!(numbers.get(1), None);
        assert_eq!(numbers.add('d'), Some(3));
        assert!(!numbers.has_room_for(1));
        let mut last = Numbers::new(u32::MAX, 9);
        assert_eq!(last.add('z'), None, "numbers do not wrap");
    }
}
