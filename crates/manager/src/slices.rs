//! Slices: sockets with limits of their own. What the tenants of one have
//! together never exceeds its memory, whatever they ask for: the limit is kept
//! here, and is told by the socket at which they came.
//!
//! ```text
//! FOLDER/control.sock                  for this process's user and the superuser
//! FOLDER/limits/NAME                   memory and owner, from which a manager
//!                                      that starts again makes the slice again
//! FOLDER/slices/NAME/run/ringfence.sock  for tenants; a container sees `run` only
//! ```
//!
//! All folders belong to the manager's user. `slices/NAME` is closed to others
//! unless the slice has an owner; then the socket itself is open to him alone.
//! This module must never use a path below a folder that a tenant can write.

use crate::addresses::{Addresses, Slot};
use crate::quota;
use model::layout::fence::HEADROOM;
use parking_lot::{Condvar, Mutex};
use protocol::{NewSlice, SLICE_SOCKET, SliceState, is_slice_name, slice_folder};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a tenant waits for memory that another one of its slice has, or for a partition
/// that is being cleared: those of a process that has just ended come back as soon as its
/// kernels are over.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a tenant waits for a partition where none is being cleared: it may take so long
/// until the manager sees that a connection has ended.
const NOTICE: Duration = Duration::from_millis(2000);

/// A limit that is being written; no slice has such a name.
const UNFINISHED: &str = ".new";

/// All slices.
pub(crate) struct Slices {
    folder: PathBuf,
    addresses: Arc<Addresses>,
    /// Bytes that one tenant may have.
    most: u64,
    all: Mutex<All>,
    /// A share was given back.
    returned: Condvar,
}

#[derive(Default)]
struct All {
    slices: BTreeMap<String, Slice>,
    /// What the next slice is told from others of its name by.
    next: u64,
}

/// A slice.
struct Slice {
    id: u64,
    memory: u64,
    owner: Option<u32>,
    /// Bytes that its tenants have.
    used: u64,
    tenants: u32,
    listener: Arc<UnixListener>,
    /// Ended with the slice.
    connections: Vec<(u64, UnixStream)>,
    has_ended: Arc<AtomicBool>,
}

/// Which slice: a name may be used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceId {
    pub(crate) name: String,
    id: u64,
}

/// A place for a tenant until this is dropped: addresses, and memory of a slice.
pub(crate) struct Place {
    slices: Arc<Slices>,
    /// Gone only while it is dropped.
    slot: Option<Slot>,
    slice: Option<SliceId>,
    memory: u64,
    base: u64,
    size: u64,
}

/// A connection of a slice among those that end with it.
pub(crate) struct Connected {
    slices: Arc<Slices>,
    slice: SliceId,
    number: u64,
    has_ended: Arc<AtomicBool>,
}

impl Slices {
    /// No slices yet. `folder`: where they will be; `most`: bytes that one tenant
    /// may have.
    pub(crate) fn new(folder: PathBuf, addresses: Arc<Addresses>, most: u64) -> Slices {
        Slices {
            folder,
            addresses,
            most,
            all: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// Makes the folders.
    pub(crate) fn make_folders(folder: &Path) -> std::io::Result<()> {
        make_folder(folder, 0o711)?;
        make_folder(&folder.join("slices"), 0o711)?;
        make_folder(&folder.join("limits"), 0o700)
    }

    /// Makes a slice; its socket, and how it is.
    pub(crate) fn add(
        &self,
        new: &NewSlice,
    ) -> Result<(SliceId, Arc<UnixListener>, SliceState), String> {
        let name = &new.name;
        if !is_slice_name(name) {
            return Err(format!(
                "`{}` is no name of a slice: letters, digits, `.`, `_` and `-`, at most {}, the first and the last a letter or a digit",
                crate::log::clean(name),
                protocol::SLICE_NAME_BYTES
            ));
        }
        let memory = new.memory.checked_next_multiple_of(HEADROOM);
        let memory = memory.filter(|memory| *memory > 0);
        let memory =
            memory.ok_or_else(|| format!("a slice cannot have {} bytes of memory", new.memory))?;
        let mut all = self.all.lock();
        if all.slices.contains_key(name) {
            return Err(format!("there is a slice {name} already"));
        }
        let (_, places) = self.addresses.count();
        if all.slices.len() >= places {
            return Err(format!(
                "there are {places} slices already, as many as the device has partitions"
            ));
        }
        let failed = |error| format!("the slice {name} cannot be made: {error}");
        let listener = self.listen(new).map_err(failed)?;
        let text = match new.owner {
            Some(owner) => format!("{memory} {owner}\n"),
            None => format!("{memory}\n"),
        };
        // In one step: what is there is whole. Only one is written at a time.
        let unfinished = self.folder.join("limits").join(UNFINISHED);
        std::fs::write(&unfinished, text)
            .and_then(|()| std::fs::rename(&unfinished, self.limit(name)))
            .map_err(failed)?;
        let id = all.next;
        all.next += 1;
        let listener = Arc::new(listener);
        let slice = Slice {
            id,
            memory,
            owner: new.owner,
            used: 0,
            tenants: 0,
            listener: Arc::clone(&listener),
            connections: Vec::new(),
            has_ended: Arc::default(),
        };
        let state = self.describe(name, &slice);
        all.slices.insert(name.clone(), slice);
        let name = name.clone();
        Ok((SliceId { name, id }, listener, state))
    }

    /// Ends a slice: its socket, the connections of its tenants, and its folder,
    /// so that who has it mounted sees no slice of the same name that comes
    /// later.
    pub(crate) fn remove(&self, name: &str) -> Result<(), String> {
        if !is_slice_name(name) {
            return Ok(());
        }
        let mut all = self.all.lock();
        if let Some(slice) = all.slices.remove(name) {
            slice.has_ended.store(true, Ordering::Release);
            // It may not be connected any more.
            let _ = rustix::net::shutdown(&*slice.listener, rustix::net::Shutdown::Both);
            for (_, connection) in &slice.connections {
                let _ = connection.shutdown(std::net::Shutdown::Both);
            }
        }
        let gone = |result: std::io::Result<()>| match result {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => result,
        };
        gone(std::fs::remove_file(self.limit(name)))
            .and_then(|()| gone(std::fs::remove_dir_all(self.slice(name))))
            .map_err(|error| format!("the slice {name} cannot be removed: {error}"))
    }

    /// The slices that a manager before this one had; and what cannot be read.
    pub(crate) fn left(&self) -> std::io::Result<Vec<Result<NewSlice, String>>> {
        let mut left = Vec::new();
        for entry in std::fs::read_dir(self.folder.join("limits"))? {
            let path = entry?.path();
            if path.ends_with(UNFINISHED) {
                continue;
            }
            let name = path.file_name().and_then(|name| name.to_str());
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let read = name.filter(|name| is_slice_name(name)).zip(parse(&text));
            let slice = read.map(|(name, (memory, owner))| NewSlice {
                name: name.into(),
                memory,
                owner,
            });
            left.push(slice.ok_or_else(|| path.display().to_string()));
        }
        Ok(left)
    }

    /// How all of them are.
    pub(crate) fn states(&self) -> Vec<SliceState> {
        let all = self.all.lock();
        let all = all.slices.iter();
        all.map(|(name, slice)| self.describe(name, slice))
            .collect()
    }

    /// Whether a slice is still there.
    pub(crate) fn has(&self, slice: &SliceId) -> bool {
        self.all.lock().get(slice).is_some()
    }

    /// Counts a connection of a slice; `None` if the slice is gone or has too
    /// many.
    pub(crate) fn connect(
        self: &Arc<Slices>,
        slice: &SliceId,
        socket: &UnixStream,
    ) -> Option<Connected> {
        let socket = socket.try_clone().ok()?;
        let mut all = self.all.lock();
        let number = all.next;
        all.next += 1;
        let found = all.get(slice)?;
        (found.connections.len() < quota::SLICE_CONNECTIONS).then(|| {
            found.connections.push((number, socket));
            Connected {
                slices: Arc::clone(self),
                slice: slice.clone(),
                number,
                has_ended: Arc::clone(&found.has_ended),
            }
        })
    }

    /// Finds room for a tenant that asks for `memory` bytes, 0 for what it may
    /// have: in its slice, or else at most `limit`, and beside the other slices, of
    /// which each can always have one tenant. `live` is how many tenants there are whose
    /// processes run: other partitions are being cleared, or will be, and are waited for.
    pub(crate) fn admit(
        self: &Arc<Slices>,
        slice: Option<&SliceId>,
        (memory, limit): (u64, u64),
        live: &dyn Fn() -> usize,
    ) -> Result<Place, String> {
        let Some(slice) = slice else {
            let memory = self.within(memory, limit)?;
            let slot = self.slot_in_time(live)?;
            return Ok(self.place(slot, None, memory));
        };
        let end = Instant::now() + PATIENCE;
        let mut all = self.all.lock();
        loop {
            let found = all.get(slice).ok_or("the slice was removed")?;
            let wanted = self.within(memory, found.memory)?;
            let left = found.memory - found.used;
            // Who names no number gets what is left.
            let granted = if memory == 0 {
                left.min(wanted)
            } else {
                wanted
            };
            if granted > 0 && granted <= left {
                let is_first = found.tenants == 0;
                if !is_first && found.tenants >= quota::SLICE_TENANTS {
                    return Err(format!("its slice has {} tenants already", found.tenants));
                }
                match self.slot(&all, is_first) {
                    Ok(slot) => {
                        let found = all.get(slice).ok_or("the slice was removed")?;
                        found.used += granted;
                        found.tenants += 1;
                        return Ok(self.place(slot, Some(slice.clone()), granted));
                    }
                    Err(error) if Instant::now() >= end => return Err(error),
                    Err(_) => {}
                }
                let _ = self.returned.wait_until(&mut all, end);
                continue;
            }
            let (memory, used) = (found.memory, found.used);
            if self.returned.wait_until(&mut all, end).timed_out() {
                return Err(format!(
                    "other processes have {used} of the {memory} bytes of memory of its slice"
                ));
            }
        }
    }

    /// The memory that a tenant gets where there is room for it.
    fn within(&self, memory: u64, limit: u64) -> Result<u64, String> {
        let limit = limit.min(self.most);
        match memory {
            0 => Ok(limit),
            memory if memory > limit => Err(format!(
                "{memory} bytes of memory are asked for, and a tenant may have {limit}"
            )),
            memory => Ok(memory.next_multiple_of(HEADROOM)),
        }
    }

    /// A slot of no slice; waits for those that are being cleared.
    fn slot_in_time(&self, live: &dyn Fn() -> usize) -> Result<Slot, String> {
        let start = Instant::now();
        let mut all = self.all.lock();
        loop {
            let slot = self.slot(&all, false);
            let waited = start.elapsed();
            let is_cleared = self.addresses.count().0 > live();
            let patience = if is_cleared { PATIENCE } else { NOTICE };
            if slot.is_ok() || waited >= patience {
                return slot;
            }
            // (Which of the two it is may change.)
            let _ = self
                .returned
                .wait_for(&mut all, NOTICE.min(patience - waited));
        }
    }

    /// A slot, unless all that are left are kept for slices without a tenant.
    fn slot(&self, all: &All, is_kept: bool) -> Result<Slot, String> {
        let (taken, count) = self.addresses.count();
        let kept = all.slices.values().filter(|slice| slice.tenants == 0);
        let kept = if is_kept { 0 } else { kept.count() };
        let slot = (count - taken > kept).then(|| self.addresses.take());
        slot.flatten().ok_or_else(|| {
            format!(
                "there is no room for another tenant ({taken} of {count} partitions are taken, {kept} are kept for other slices)"
            )
        })
    }

    fn place(self: &Arc<Slices>, slot: Slot, slice: Option<SliceId>, memory: u64) -> Place {
        Place {
            slices: Arc::clone(self),
            base: slot.base(),
            size: slot.size(),
            slot: Some(slot),
            slice,
            memory,
        }
    }

    fn describe(&self, name: &str, slice: &Slice) -> SliceState {
        SliceState {
            name: name.into(),
            memory: slice.memory,
            used: slice.used,
            tenants: slice.tenants,
            owner: slice.owner,
            folder: slice_folder(&self.folder, name),
        }
    }

    fn slice(&self, name: &str) -> PathBuf {
        self.folder.join("slices").join(name)
    }

    fn limit(&self, name: &str) -> PathBuf {
        self.folder.join("limits").join(name)
    }

    /// Makes the socket of a slice.
    fn listen(&self, new: &NewSlice) -> std::io::Result<UnixListener> {
        let folder = self.slice(&new.name);
        // Where a manager was before, containers have `run` mounted: it stays.
        make_folder(&folder, 0o700)?;
        let run = slice_folder(&self.folder, &new.name);
        make_folder(&run, 0o755)?;
        let path = run.join(SLICE_SOCKET);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        match new.owner {
            Some(owner) => {
                std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
                std::os::unix::fs::chown(&path, Some(owner), None)?;
                // Now that the socket is closed to others.
                std::fs::set_permissions(&folder, Permissions::from_mode(0o711))?;
            }
            None => std::fs::set_permissions(&path, Permissions::from_mode(0o666))?,
        }
        Ok(listener)
    }
}

impl All {
    fn get(&mut self, slice: &SliceId) -> Option<&mut Slice> {
        let found = self.slices.get_mut(&slice.name);
        found.filter(|found| found.id == slice.id)
    }
}

impl Place {
    /// First byte of the partition.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of the partition.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of memory, a multiple of [`HEADROOM`].
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.slices.all.lock();
        // Both at once: else the slot that is kept for the slice could go to
        // another one, or not be there yet for its next tenant.
        drop(self.slot.take());
        if let Some(slice) = self.slice.as_ref().and_then(|slice| all.get(slice)) {
            slice.used -= self.memory;
            slice.tenants -= 1;
        }
        drop(all);
        self.slices.returned.notify_all();
    }
}

impl Connected {
    /// The slice.
    pub(crate) fn slice(&self) -> &SliceId {
        &self.slice
    }

    /// Whether the slice was removed. Its sockets were shut down then, but who is
    /// busy does not look at a socket.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        if let Some(slice) = self.slices.all.lock().get(&self.slice) {
            let number = self.number;
            slice.connections.retain(|(each, _)| *each != number);
        }
    }
}

/// Memory and owner, as a file of a limit holds them.
fn parse(text: &str) -> Option<(u64, Option<u32>)> {
    let mut words = text.split_whitespace();
    let memory = words.next()?.parse().ok()?;
    let owner = words.next().map(str::parse).transpose().ok()?;
    words.next().is_none().then_some((memory, owner))
}

/// Makes a folder with this mode, unless it is there.
fn make_folder(path: &Path, mode: u32) -> std::io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // What a link leads to is not this process's to open.
    let found = std::fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Err(std::io::Error::new(
            ErrorKind::NotADirectory,
            format!("{} is no folder", path.display()),
        ));
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn slices(folder: &Path) -> Arc<Slices> {
        Slices::make_folders(folder).expect("folders");
        let addresses = Arc::new(Addresses::new(1024 * MIB, None).expect("room"));
        Arc::new(Slices::new(folder.into(), addresses, 1024 * MIB))
    }

    fn new(name: &str, memory: u64) -> NewSlice {
        NewSlice {
            name: name.into(),
            memory,
            owner: None,
        }
    }

    /// No partition is being cleared.
    fn all_live() -> usize {
        usize::MAX
    }

    #[test]
    fn partitions_that_are_being_cleared_are_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let slices = slices(folder.path());
        let mut places = Vec::new();
        while let Ok(place) = slices.admit(None, (64 * MIB, MIB << 20), &all_live) {
            places.push(place);
        }
        let live = places.len() - 1;
        let waiting = std::thread::spawn({
            let slices = Arc::clone(&slices);
            move || slices.admit(None, (64 * MIB, MIB << 20), &|| live).is_ok()
        });
        std::thread::sleep(2 * NOTICE);
        drop(places.pop());
        assert!(waiting.join().unwrap());
    }

    #[test]
    fn tenants_of_a_slice_never_have_more_than_its_memory() {
        let folder = tempfile::tempdir().unwrap();
        let slices = slices(folder.path());
        let (slice, ..) = slices.add(&new("a", 256 * MIB)).unwrap();
        let asked = |memory| slices.admit(Some(&slice), (memory, MIB << 20), &all_live);
        let refused = |memory| asked(memory).err().expect("a refusal");
        assert!(refused(257 * MIB).contains("a tenant may have 268435456"));
        assert!(refused(u64::MAX).contains("a tenant may have"));
        let first = asked(100 * MIB).unwrap();
        assert_eq!(first.memory(), 128 * MIB);
        // Who names no number gets what is left.
        let second = asked(0).unwrap();
        assert_eq!(second.memory(), 128 * MIB);
        assert!(refused(1).contains("other processes have 268435456 of the 268435456"));
        // What is given back while it waits is had.
        let waiting = std::thread::spawn({
            let (slices, slice) = (Arc::clone(&slices), slice.clone());
            move || {
                slices
                    .admit(Some(&slice), (64 * MIB, MIB << 20), &all_live)
                    .map(|place| place.memory())
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        drop(first);
        assert_eq!(waiting.join().unwrap(), Ok(64 * MIB));
        assert_eq!(slices.states()[0].used, 128 * MIB);
        drop(second);
        assert_eq!(
            (slices.states()[0].used, slices.states()[0].tenants),
            (0, 0)
        );
    }

    #[test]
    fn each_slice_can_have_a_tenant_whatever_others_take() {
        let folder = tempfile::tempdir().unwrap();
        let slices = slices(folder.path());
        let (small, ..) = slices.add(&new("small", 64 * MIB)).unwrap();
        let (large, ..) = slices.add(&new("large", 1024 * 1024 * MIB)).unwrap();
        let mut places = Vec::new();
        while let Ok(place) = slices.admit(Some(&large), (64 * MIB, MIB << 20), &all_live) {
            places.push(place);
        }
        assert_eq!(places.len() as u32, quota::SLICE_TENANTS);
        while let Ok(place) = slices.admit(None, (64 * MIB, MIB << 20), &all_live) {
            places.push(place);
        }
        let (taken, all) = slices.addresses.count();
        assert_eq!(all - taken, 1);
        assert!(
            slices
                .admit(Some(&small), (0, MIB << 20), &all_live)
                .is_ok()
        );
    }

    #[test]
    fn a_slice_that_is_gone_is_not_one_that_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let slices = slices(folder.path());
        let (old, _listener, state) = slices.add(&new("a", 64 * MIB)).unwrap();
        let inode = |path: &Path| {
            use std::os::unix::fs::MetadataExt;
            path.metadata().unwrap().ino()
        };
        let held = std::fs::File::open(&state.folder).unwrap();
        let before = inode(&state.folder);
        let place = slices.admit(Some(&old), (0, MIB << 20), &all_live).unwrap();
        assert!(slices.add(&new("a", 64 * MIB)).is_err());
        slices.remove("a").unwrap();
        assert!(!state.folder.exists());
        let (young, ..) = slices.add(&new("a", 128 * MIB)).unwrap();
        // A container that still has the old folder mounted does not see it.
        assert_ne!(inode(&state.folder), before);
        drop(held);
        assert!(slices.admit(Some(&old), (0, MIB << 20), &all_live).is_err());
        // What the old one's tenant had is not given back to the young one.
        drop(place);
        let state = &slices.states()[0];
        assert_eq!((state.used, state.tenants, state.memory), (0, 0, 128 * MIB));
        assert!(slices.has(&young) && !slices.has(&old));
    }

    #[test]
    fn slices_outlive_a_manager() {
        let folder = tempfile::tempdir().unwrap();
        let user = rustix::process::getuid().as_raw();
        let slices_before = slices(folder.path());
        let owned = NewSlice {
            owner: Some(user),
            ..new("owned", 1)
        };
        slices_before.add(&owned).unwrap();
        slices_before.add(&new("open.1", 65 * MIB)).unwrap();
        slices_before.add(&new("open.2", 65 * MIB)).unwrap();
        slices_before.remove("open.2").unwrap();
        std::fs::write(folder.path().join("limits/odd"), "much").unwrap();
        std::fs::write(folder.path().join("limits/.new"), "6").unwrap();
        let slices = slices(folder.path());
        let (mut left, odd): (Vec<_>, Vec<_>) =
            slices.left().unwrap().into_iter().partition(Result::is_ok);
        assert_eq!(odd.len(), 1);
        left.sort_by_key(|slice| slice.as_ref().map(|slice| slice.name.clone()).ok());
        for slice in left {
            slices.add(&slice.unwrap()).unwrap();
        }
        let states = slices.states();
        let seen: Vec<_> = states
            .iter()
            .map(|state| (state.name.as_str(), state.memory, state.owner))
            .collect();
        assert_eq!(
            seen,
            [("open.1", 128 * MIB, None), ("owned", 64 * MIB, Some(user))]
        );
        let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
        let of = |name: &str| folder.path().join("slices").join(name);
        assert_eq!(mode(of("open.1")), 0o700);
        assert_eq!(mode(of("owned")), 0o711);
        assert_eq!(mode(of("open.1").join("run").join(SLICE_SOCKET)), 0o666);
        assert_eq!(mode(of("owned").join("run").join(SLICE_SOCKET)), 0o600);
    }
}
