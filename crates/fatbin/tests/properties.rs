//! No bytes make the reader panic or hold more than its limit; what is written
//! reads back.

use fatbin::{Compression, Error, Kind, NewEntry, Target, parse, write};
use proptest::prelude::*;

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

fn read_all(bytes: &[u8]) {
    if let Ok(entries) = parse(bytes) {
        for entry in entries {
            if let Ok(payload) = entry.payload(LIMIT) {
                assert!(payload.len() as u64 <= LIMIT);
            }
        }
    }
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
                // Machine code knows its own length; padding stays.
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
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read_all(&bytes);
    }

    #[test]
    fn mutated(entries in proptest::collection::vec(entry(), 1..4),
               changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let mut bytes = write(&entries);
        for (index, value) in changes {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        read_all(&bytes);
    }

    #[test]
    fn cut_short_is_an_error(entries in proptest::collection::vec(entry(), 1..4), cut in any::<prop::sample::Index>()) {
        let bytes = write(&entries);
        let length = 1 + cut.index(bytes.len() - 1);
        let result = parse(&bytes[..length]);
        prop_assert!(matches!(result, Err(Error::Truncated { .. })), "{result:?}");
    }
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
