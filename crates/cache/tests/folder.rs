//! Folders: what is found in them, what is not, and whose they are.

use cache::{Cache, FolderError, HEADER, Key};
use proptest::prelude::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

fn key(number: u64) -> Key {
    Key::of("test").and(&number.to_le_bytes()).key()
}

fn of(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_was_put_is_found_by_all() {
    let folder = tempfile::tempdir().unwrap();
    // Folders above are made, too.
    let path = folder.path().join("a/b");
    let cache = Cache::open(&path, 1 << 20).unwrap();
    assert_eq!(cache.get(&key(1)), None);
    cache.put(&key(1), b"one");
    cache.put(&key(2), b"");
    let other = Cache::open(&path, 1 << 20).unwrap();
    assert_eq!(other.get(&key(1)).as_deref(), Some(&b"one"[..]));
    assert_eq!(other.get(&key(2)).as_deref(), Some(&b""[..]));
    other.put(&key(1), b"another");
    assert_eq!(cache.get(&key(1)).as_deref(), Some(&b"another"[..]));
    let counts = cache.counts();
    assert_eq!(
        (of(&counts.found), of(&counts.missing), of(&counts.written)),
        (1, 1, 2)
    );
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
    for file in files(&path) {
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "{file:?}");
    }
    assert_eq!(files(&path).len(), 2);
}

#[test]
fn what_is_damaged_is_counted_and_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let cache = Cache::open(&path, 1 << 20).unwrap();
    let file = path.join(key(1).to_string());
    let whole = || {
        cache.put(&key(1), b"contents");
        std::fs::read(&file).unwrap()
    };
    let damages: [&dyn Fn(); 7] = [
        &|| std::fs::write(&file, b"").unwrap(),
        &|| std::fs::write(&file, &whole()[..HEADER + 3]).unwrap(),
        &|| {
            let mut bytes = whole();
            bytes[HEADER] ^= 1;
            std::fs::write(&file, bytes).unwrap();
        },
        &|| {
            whole();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
        },
        // Another key's.
        &|| {
            cache.put(&key(2), b"contents");
            std::fs::rename(path.join(key(2).to_string()), &file).unwrap();
        },
        &|| {
            whole();
            std::fs::rename(&file, path.join("elsewhere")).unwrap();
            symlink(path.join("elsewhere"), &file).unwrap();
        },
        // Larger than all that the folder may hold.
        &|| {
            let sparse = std::fs::File::create(&file).unwrap();
            sparse.set_len(1 << 40).unwrap();
        },
    ];
    for (at, damage) in damages.iter().enumerate() {
        damage();
        assert_eq!(cache.get(&key(1)), None, "{at}");
        assert_eq!(of(&cache.counts().damaged), at as u64 + 1);
        assert!(std::fs::symlink_metadata(&file).is_err(), "{at}");
        whole();
        assert_eq!(
            cache.get(&key(1)).as_deref(),
            Some(&b"contents"[..]),
            "{at}"
        );
    }
    // What its user cannot read goes, too.
    cache.reject(&key(1));
    assert_eq!(cache.get(&key(1)), None);
    // A folder in its place cannot be removed, and is no result.
    std::fs::create_dir(&file).unwrap();
    assert_eq!(cache.get(&key(1)), None);
    cache.put(&key(1), b"contents");
    assert_eq!(of(&cache.counts().not_written), 1);
}

#[test]
fn a_folder_of_somebody_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let cache = Cache::open(&path, 1 << 20).unwrap();
    cache.put(&key(1), b"one");
    for mode in [0o755, 0o770, 0o701] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let error = Cache::open(&path, 1 << 20).unwrap_err();
        assert!(matches!(error, FolderError::Mode { .. }), "{error}");
        assert!(
            error.to_string().contains(&format!("(mode {mode:o})")),
            "{error}"
        );
        // Also one that becomes so.
        assert_eq!(cache.get(&key(1)), None);
    }
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
    assert!(cache.get(&key(1)).is_some());
    // A link may lead to somebody else's.
    symlink(&path, folder.path().join("link")).unwrap();
    let error = Cache::open(&folder.path().join("link"), 1 << 20).unwrap_err();
    assert!(matches!(error, FolderError::Open { .. }), "{error}");
    std::fs::write(folder.path().join("file"), "").unwrap();
    assert!(Cache::open(&folder.path().join("file"), 1 << 20).is_err());
    // Only root can give a folder away.
    if path.metadata().unwrap().uid() == 0 {
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        let error = Cache::open(&path, 1 << 20).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("belongs to user 12345, and this is user 0")
        );
        assert_eq!(cache.get(&key(1)), None);
        cache.put(&key(2), b"two");
        assert_eq!(files(&path).len(), 1);
    }
}

#[test]
fn what_was_left_half_written_goes_and_other_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let cache = Cache::open(&path, 1 << 20).unwrap();
    let left = path.join("new-1-2-3");
    std::fs::write(&left, "half").unwrap();
    std::fs::create_dir(path.join("folder")).unwrap();
    cache.put(&key(1), b"one");
    assert!(left.exists(), "somebody may be writing it");
    let old = SystemTime::now() - Duration::from_secs(7200);
    let file = std::fs::File::options().write(true).open(&left).unwrap();
    file.set_modified(old).unwrap();
    cache.put(&key(2), b"two");
    assert!(!left.exists() && path.join("folder").exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is put and got: what is found is what was put last, what was used
    /// last is there, and the folder keeps its size.
    #[test]
    fn a_folder_keeps_its_size_and_what_was_used_last(
        steps in prop::collection::vec((any::<bool>(), 0u64..12, 0usize..1000), 1..60),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let limit = 4 * (HEADER + 1000) as u64;
        let cache = Cache::open(&folder.path().join("cache"), limit).unwrap();
        let mut put = std::collections::BTreeMap::new();
        let mut clock = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for (is_put, number, length) in steps {
            let file = folder.path().join("cache").join(key(number).to_string());
            if is_put {
                let contents = vec![length as u8; length];
                cache.put(&key(number), &contents);
                put.insert(number, contents);
                prop_assert!(cache.get(&key(number)).is_some(), "it is the newest one");
            } else if let Some(found) = cache.get(&key(number)) {
                prop_assert_eq!(Some(&found), put.get(&number));
            }
            // Times of files may be coarse: steps are seconds here.
            clock += Duration::from_secs(1);
            if let Ok(file) = std::fs::File::options().write(true).open(&file) {
                file.set_modified(clock).unwrap();
            }
            let all: u64 = files(&folder.path().join("cache"))
                .iter()
                .map(|file| file.metadata().unwrap().len())
                .sum();
            prop_assert!(all <= limit, "{all}");
        }
    }
}

#[test]
fn what_was_not_used_for_longest_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let cache = Cache::open(&path, 8 * (HEADER + 100) as u64).unwrap();
    let old = |number: u64, seconds: u64| {
        let file = std::fs::File::options()
            .write(true)
            .open(path.join(key(number).to_string()));
        file.unwrap()
            .set_modified(SystemTime::now() - Duration::from_secs(seconds))
            .unwrap();
    };
    for number in 0..8 {
        cache.put(&key(number), &[7; 100]);
        old(number, 1000 - number);
    }
    assert!(cache.get(&key(0)).is_some());
    cache.put(&key(8), &[7; 100]);
    assert_eq!(of(&cache.counts().evicted), 2);
    let there: Vec<u64> = (0..9)
        .filter(|number| cache.get(&key(*number)).is_some())
        .collect();
    assert_eq!(there, [0, 3, 4, 5, 6, 7, 8]);
    // More than a quarter of all.
    cache.put(&key(9), &[7; 300]);
    assert_eq!(cache.get(&key(9)), None);
}

#[test]
fn many_may_use_a_folder_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let contents = |number: u64| vec![number as u8; 3000 + number as usize];
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let path = &path;
            scope.spawn(move || {
                // Half as large as what they write.
                let cache = Cache::open(path, 40_000).unwrap();
                for round in 0..200u64 {
                    let number = (round * 7 + thread * 3) % 24;
                    match cache.get(&key(number)) {
                        Some(found) => assert_eq!(found, contents(number)),
                        None => cache.put(&key(number), &contents(number)),
                    }
                }
                assert_eq!(of(&cache.counts().damaged), 0);
                assert_eq!(of(&cache.counts().not_written), 0);
            });
        }
    });
    assert!(
        files(&path)
            .iter()
            .all(|file| !file.to_str().unwrap().contains("new-"))
    );
}
