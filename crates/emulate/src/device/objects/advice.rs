//! Advice about managed memory. It changes nothing on this device, and programs
//! may ask what they said.

use std::ops::Range;

/// Where memory can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// With the device.
    Device,
    /// With the host.
    Host,
}

/// What a program says of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// It is mostly read, or not.
    ReadMostly(bool),
    /// Where it is best kept.
    Preferred(Option<Place>),
    /// Who accesses it, or no longer does.
    Accessed(Place, bool),
    /// Where it was moved to.
    Prefetched(Place),
}

/// What was said of a byte, or of all bytes of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advised {
    /// It is mostly read.
    pub read_mostly: bool,
    /// Where it is best kept.
    pub preferred: Option<Place>,
    /// The device accesses it.
    pub by_device: bool,
    /// The host accesses it.
    pub by_host: bool,
    /// Where it was last moved to.
    pub prefetched: Option<Place>,
}

impl Advised {
    fn hear(&mut self, advice: Advice) {
        match advice {
            Advice::ReadMostly(is_so) => self.read_mostly = is_so,
            Advice::Preferred(place) => self.preferred = place,
            Advice::Accessed(Place::Device, is_so) => self.by_device = is_so,
            Advice::Accessed(Place::Host, is_so) => self.by_host = is_so,
            Advice::Prefetched(place) => self.prefetched = Some(place),
        }
    }

    /// What holds of both.
    fn and(self, other: Advised) -> Advised {
        let same = |a: Option<Place>, b: Option<Place>| a.filter(|_| a == b);
        Advised {
            read_mostly: self.read_mostly && other.read_mostly,
            preferred: same(self.preferred, other.preferred),
            by_device: self.by_device && other.by_device,
            by_host: self.by_host && other.by_host,
            prefetched: same(self.prefetched, other.prefetched),
        }
    }
}

/// What was said of one allocation, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    list: Vec<(Range<u64>, Advice)>,
}

impl Said {
    /// Notes it; what it makes obsolete is dropped.
    pub(crate) fn add(&mut self, range: Range<u64>, advice: Advice) {
        let kind = |advice: &Advice| match advice {
            Advice::Accessed(place, _) => (std::mem::discriminant(advice), Some(*place)),
            _ => (std::mem::discriminant(advice), None),
        };
        self.list.retain(|(old, said)| {
            kind(said) != kind(&advice) || old.start < range.start || old.end > range.end
        });
        self.list.push((range, advice));
    }

    /// What holds of all bytes of a range that is not empty.
    pub(crate) fn of(&self, range: &Range<u64>) -> Advised {
        let edges = self
            .list
            .iter()
            .flat_map(|(said, _)| [said.start, said.end]);
        let starts = edges.filter(|edge| range.contains(edge));
        let at = |address: u64| {
            let mut advised = Advised::default();
            let said = self.list.iter().filter(|(said, _)| said.contains(&address));
            said.for_each(|(_, advice)| advised.hear(*advice));
            advised
        };
        starts.fold(at(range.start), |all, start| all.and(at(start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_what_all_its_bytes_are() {
        let mut said = Said::default();
        said.add(0..100, Advice::ReadMostly(true));
        said.add(0..100, Advice::Preferred(Some(Place::Device)));
        said.add(50..100, Advice::Preferred(Some(Place::Host)));
        said.add(0..50, Advice::Accessed(Place::Host, true));
        let whole = said.of(&(0..100));
        assert_eq!((whole.read_mostly, whole.preferred), (true, None));
        assert!(!whole.by_host && said.of(&(0..50)).by_host);
        assert_eq!(said.of(&(0..50)).preferred, Some(Place::Device));
        assert_eq!(said.of(&(50..60)).preferred, Some(Place::Host));
        said.add(0..100, Advice::ReadMostly(false));
        said.add(0..100, Advice::Preferred(None));
        assert_eq!(said.list.len(), 3);
        assert_eq!(said.of(&(0..50)).preferred, None);
    }
}
