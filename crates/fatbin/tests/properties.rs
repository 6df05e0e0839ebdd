//! No bytes make the reader panic or hold more than its limit; what is written
//! reads back.

use fatbin::{Compression, Error, Kind, NewEntry, Target, parse, write};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use std::cell::Cell;

const LIMIT: u64 = 1 << 20;

fn entry() -> impl Strategy<Value = NewEntry> {
    let kind = prop_oneof![
        Just(Kind::Ptx),
        Just(Kind::Elf),
        Just(Kind::LtoIr),
        Just(Kind::Other(77))
    ];
    let target = prop_oneof![
        Just(Target::Generic),
        Just(Target::Family),
        Just(Target::Exact)
    ];
    let compression = prop_oneof![
        Just(Compression::None),
        Just(Compression::Lz4),
        Just(Compression::Zstd)
    ];
    // Repetition makes payloads that do compress.
    let payload = (proptest::collection::vec(1u8.., 0..200), 1usize..20)
        .prop_map(|(part, times)| part.repeat(times));
    (
        kind,
        50u32..130,
        target,
        (1u16..10, 0u16..10),
        proptest::option::of("[a-z]{1,20}\\.cu"),
        compression,
        payload,
    )
        .prop_map(
            |(kind, arch, target, version, identifier, compression, payload)| NewEntry {
                kind,
                arch,
                target,
                version,
                identifier,
                compression,
                payload,
            },
        )
}

/// Reads all that can be read; how many payloads that were.
fn read_all(bytes: &[u8]) -> usize {
    let Ok(entries) = parse(bytes) else { return 0 };
    entries
        .iter()
        .filter_map(|entry| entry.payload(LIMIT).ok())
        .inspect(|payload| assert!(payload.len() as u64 <= LIMIT))
        .count()
}

proptest! {
    #[test]
    fn written_reads_back(entries in proptest::collection::vec(entry(), 0..6)) {
        let bytes = write(&entries);
        let header: &[u8; 16] = bytes[..16].try_into().unwrap();
        prop_assert_eq!(fatbin::container_size(header), Ok(bytes.len() as u64));
        let read = parse(&bytes).unwrap();
        prop_assert_eq!(read.len(), entries.len());
        for (read, written) in read.iter().zip(&entries) {
            prop_assert_eq!(read.kind, written.kind);
            prop_assert_eq!(read.arch, written.arch);
            prop_assert_eq!(read.target(), written.target);
            prop_assert_eq!(read.version, written.version);
            prop_assert_eq!(read.identifier, written.identifier.as_deref());
            prop_assert_eq!(read.compression, written.compression);
            let payload = read.payload(LIMIT).unwrap();
            if read.kind != Kind::Ptx && read.compression == Compression::None {
                // Machine code contains its own length, so padding is not
                // removed.
                prop_assert_eq!(&payload[..written.payload.len()], &written.payload[..]);
                prop_assert!(payload.len() < written.payload.len() + 8);
            } else {
                prop_assert_eq!(&payload[..], &written.payload[..]);
            }
        }
    }

    #[test]
    fn several_containers_with_padding(first in entry(), second in entry(), padding in 0usize..4) {
        let mut bytes = write(&[first]);
        bytes.extend(vec![0; padding * 8]);
        bytes.extend(write(&[second]));
        bytes.extend(vec![0; padding]);
        prop_assert_eq!(parse(&bytes).unwrap().len(), 2);
    }

    #[test]
    fn cut_short_is_an_error(entries in proptest::collection::vec(entry(), 1..4), cut in any::<Index>()) {
        let bytes = write(&entries);
        let length = 1 + cut.index(bytes.len() - 1);
        let result = parse(&bytes[..length]);
        prop_assert!(matches!(result, Err(Error::Truncated { .. })), "{result:?}");
    }
}

/// What is done to a container.
#[derive(Clone, Debug)]
enum Change {
    /// A number of its headers, of the entry so far in, becomes what is
    /// wrong in an interesting way.
    Field(Index, (usize, usize), Odd),
    /// Any byte.
    Byte(Index, u8),
    /// Bytes are taken out, or doubled.
    Cut(Index, usize),
    Double(Index, usize),
}

/// A number from the one that stood there.
#[derive(Clone, Debug)]
enum Odd {
    Any(u64),
    Near(i64),
    /// All that the field can hold, less so much.
    Greatest(u64),
    Bit(u32),
}

/// Offset and width of the numbers in an entry's header.
const FIELDS: [(usize, usize); 12] = [
    (0x00, 2),
    (0x04, 4),
    (0x08, 8),
    (0x10, 4),
    (0x14, 4),
    (0x18, 2),
    (0x1a, 2),
    (0x1c, 4),
    (0x20, 4),
    (0x24, 4),
    (0x28, 8),
    (0x38, 8),
];

fn change() -> impl Strategy<Value = Change> {
    let odd = prop_oneof![
        any::<u64>().prop_map(Odd::Any),
        (-70i64..70).prop_map(Odd::Near),
        (0u64..70).prop_map(Odd::Greatest),
        (0u32..64).prop_map(Odd::Bit),
    ];
    let field = (any::<Index>(), prop::sample::select(&FIELDS[..]), odd);
    prop_oneof![
        4 => field.prop_map(|(entry, field, odd)| Change::Field(entry, field, odd)),
        2 => (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Change::Byte(at, value)),
        1 => (any::<Index>(), 1usize..80).prop_map(|(at, length)| Change::Cut(at, length)),
        1 => (any::<Index>(), 1usize..80).prop_map(|(at, length)| Change::Double(at, length)),
    ]
}

fn apply(change: &Change, bytes: &mut Vec<u8>) {
    let end = |at: usize, length: usize, bytes: &[u8]| (at + length).min(bytes.len());
    match change {
        Change::Field(entry, (offset, width), odd) => {
            let starts: Vec<usize> = parse(bytes)
                .map(|entries| entries.iter().map(|entry| entry.offset).collect())
                .unwrap_or_default();
            // What no longer parses gets no worse by its fields.
            if starts.is_empty() {
                return;
            }
            let place = starts[entry.index(starts.len())] + *offset;
            let mut number = [0; 8];
            number[..*width].copy_from_slice(&bytes[place..place + width]);
            let old = u64::from_le_bytes(number);
            let new = match odd {
                Odd::Any(value) => *value,
                Odd::Near(by) => old.wrapping_add_signed(*by),
                Odd::Greatest(less) => u64::MAX - less,
                Odd::Bit(bit) => old ^ 1 << (bit % (8 * *width as u32)),
            };
            bytes[place..place + width].copy_from_slice(&new.to_le_bytes()[..*width]);
        }
        Change::Byte(at, value) => {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        Change::Cut(at, length) => {
            let at = at.index(bytes.len());
            let end = end(at, *length, bytes);
            // One byte stays: there is something to read.
            bytes.drain(at.max(1)..end.max(1));
        }
        Change::Double(at, length) => {
            let at = at.index(bytes.len());
            let part = bytes[at..end(at, *length, bytes)].to_vec();
            bytes.splice(at..at, part);
        }
    }
}

/// Real containers with a few errors: a result or an error, no panic, and no
/// more memory than the limit. In most of them some entries can still be read.
#[test]
fn changed_containers_are_read_or_refused() {
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2000)
    });
    let strategy = (
        prop::collection::vec(entry(), 1..4),
        prop::collection::vec(change(), 1..4),
    );
    let (parsed, read, refused) = (Cell::new(0), Cell::new(0), Cell::new(0));
    runner
        .run(&strategy, |(entries, changes)| {
            let mut bytes = write(&entries);
            for change in &changes {
                apply(change, &mut bytes);
            }
            match parse(&bytes) {
                Ok(_) => parsed.set(parsed.get() + 1),
                Err(error) => {
                    prop_assert!(!error.to_string().is_empty());
                    refused.set(refused.get() + 1);
                }
            }
            read.set(read.get() + usize::from(read_all(&bytes) > 0));
            Ok(())
        })
        .unwrap();
    let counts = (parsed.get(), read.get(), refused.get());
    assert!(
        counts.0 >= 200 && counts.1 >= 200 && counts.2 >= 200,
        "{counts:?}"
    );
}

fn one(compression: Compression) -> Vec<u8> {
    write(&[NewEntry {
        kind: Kind::Ptx,
        arch: 75,
        target: Target::Generic,
        version: (9, 0),
        identifier: None,
        compression,
        payload: b".version 9.0\n".repeat(2000),
    }])
}

#[test]
fn limits_hold() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let bytes = one(compression);
        let entries = parse(&bytes).unwrap();
        assert!(entries[0].payload(1 << 16).is_ok());
        assert_eq!(
            entries[0].payload(25_000),
            Err(Error::TooLarge {
                offset: 16,
                limit: 25_000
            }),
            "{compression:?}"
        );
    }
}

#[test]
fn bombs_that_lie_about_their_size() {
    for (compression, declared) in [
        (Compression::Lz4, 100u64),
        (Compression::Zstd, 100),
        (Compression::Lz4, u64::MAX),
        (Compression::Zstd, 1 << 40),
        (Compression::Lz4, 1 << 34),
    ] {
        let mut bytes = one(compression);
        bytes[16 + 0x38..16 + 0x40].copy_from_slice(&declared.to_le_bytes());
        let entries = parse(&bytes).unwrap();
        let error = entries[0].payload(1 << 35).unwrap_err();
        assert!(
            matches!(error, Error::Decompress { .. } | Error::TooLarge { .. }),
            "{compression:?} {declared}: {error}"
        );
    }
}

#[test]
fn lengths_that_lie() {
    let bytes = one(Compression::Zstd);
    // Container size, header size, payload size, compressed size, name length.
    for (offset, width, value) in [
        (8, 8, u64::MAX),
        (8, 8, u64::MAX - 8),
        (8, 8, 1 << 40),
        (16 + 4, 4, 0),
        (16 + 4, 4, 63),
        (16 + 4, 4, 0xffff_ffff),
        (16 + 8, 8, u64::MAX),
        (16 + 8, 8, u64::MAX - 63),
        (16 + 0x10, 4, 0xffff_ffff),
        (16 + 0x24, 4, 0xffff_ffff),
        (6, 2, 0),
    ] {
        let mut bytes = bytes.clone();
        bytes[offset..offset + width].copy_from_slice(&value.to_le_bytes()[..width]);
        let error = parse(&bytes).expect_err(&format!("{offset:#x} = {value:#x}"));
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn not_a_fat_binary() {
    assert!(parse(b"").unwrap().is_empty());
    assert!(matches!(
        parse(&[0x7f; 64]),
        Err(Error::Magic { offset: 0, .. })
    ));
    let mut bytes = one(Compression::None);
    bytes[4] = 2;
    assert_eq!(
        parse(&bytes).unwrap_err(),
        Error::Version {
            offset: 0,
            version: 2
        }
    );
}
