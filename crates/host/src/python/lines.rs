//! Lines of instructions, from the table of a code object.

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Format {
    /// Pairs of bytes and lines (PEP 626).
    Pairs,
    /// Entries with columns (CPython 3.11 and later, `Objects/locations.md`).
    Locations,
}

/// The line of the instruction at a code unit (of two bytes).
pub(super) fn line_of(format: Format, table: &[u8], first: u32, unit: usize) -> Option<u32> {
    let line = match format {
        Format::Pairs => pairs(table, first.into(), unit.checked_mul(2)?),
        Format::Locations => locations(table, first.into(), unit),
    }?;
    u32::try_from(line).ok().filter(|line| *line > 0)
}

/// The first byte is how far an entry reaches, the second by how much the
/// line changes; -128 says that there is none.
fn pairs(table: &[u8], first: i64, byte: usize) -> Option<i64> {
    let (mut line, mut end) = (first, 0_usize);
    for pair in table.chunks_exact(2) {
        let delta = pair[1] as i8;
        end += usize::from(pair[0]);
        if delta != -128 {
            line += i64::from(delta);
        }
        if byte < end {
            return (delta != -128).then_some(line);
        }
    }
    None
}

fn locations(table: &[u8], first: i64, unit: usize) -> Option<i64> {
    let mut bytes = table.iter().copied();
    let (mut line, mut end) = (first, 0_usize);
    while let Some(head) = bytes.next() {
        if head & 0x80 == 0 {
            // Not the first byte of an entry: the table is damaged.
            return None;
        }
        end += usize::from(head & 7) + 1;
        let kind = (head >> 3) & 15;
        // Columns take the bytes that say nothing of lines.
        let columns = match kind {
            0..=9 => 1,
            10..=12 => {
                line += i64::from(kind - 10);
                2
            }
            13 => {
                line = line.checked_add(signed(&mut bytes)?)?;
                0
            }
            14 => {
                line = line.checked_add(signed(&mut bytes)?)?;
                for _ in 0..3 {
                    number(&mut bytes)?;
                }
                0
            }
            _ => 0,
        };
        for _ in 0..columns {
            bytes.next()?;
        }
        if unit < end {
            return (kind != 15).then_some(line);
        }
    }
    None
}

/// Six bits a byte, least first; 64 says that more follow.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..60).step_by(6) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(value);
        }
    }
    None
}

/// The lowest bit is the sign.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = number(bytes)?;
    let magnitude = i64::try_from(value >> 1).ok()?;
    Some(if value & 1 == 0 {
        magnitude
    } else {
        -magnitude
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_give_the_line_of_each_byte() {
        // Four bytes of line 7, four of none, four of line 9, two of line 6.
        let table = [4, 2, 4, 0x80, 4, 2, 2, 0xfd];
        let line = |unit| line_of(Format::Pairs, &table, 5, unit);
        assert_eq!(line(0), Some(7));
        assert_eq!(line(1), Some(7));
        assert_eq!(line(2), None);
        assert_eq!(line(4), Some(9));
        assert_eq!(line(6), Some(6));
        assert_eq!(line(7), None);
    }

    #[test]
    fn locations_give_the_line_of_each_unit() {
        let table = [
            0x80 | (13 << 3) | 1,
            8, // two units, four lines on
            0x80 | 2,
            0x11, // three units, the same line
            0x80 | (11 << 3),
            3,
            4,                    // one unit, the next line
            0x80 | (15 << 3) | 7, // eight units without a line
            0x80 | (14 << 3),
            3,
            0,
            1,
            65,
            1, // one unit, a line back
        ];
        let line = |unit| line_of(Format::Locations, &table, 10, unit);
        assert_eq!(line(0), Some(14));
        assert_eq!(line(4), Some(14));
        assert_eq!(line(5), Some(15));
        assert_eq!(line(6), None);
        assert_eq!(line(13), None);
        assert_eq!(line(14), Some(14));
        assert_eq!(line(15), None);
    }

    #[test]
    fn damaged_tables_have_no_lines() {
        assert_eq!(line_of(Format::Locations, &[0x00, 1, 2], 1, 0), None);
        assert_eq!(
            line_of(Format::Locations, &[0x80 | (14 << 3), 64], 1, 0),
            None
        );
        assert_eq!(line_of(Format::Pairs, &[2], 1, 0), None);
        assert_eq!(line_of(Format::Pairs, &[2, 0], 1, usize::MAX), None);
    }
}
