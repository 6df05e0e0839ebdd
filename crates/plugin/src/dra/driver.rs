//! What is done about claims: slices of the manager, and files for the container
//! runtime.

use super::claim::{ClaimError, Prepared, PreparedDevice, ResourceClaim, prepared};
use super::cluster::{Access, Cluster, ClusterError};
use super::resource_slices::{MOST_UNITS, Pool, Sharing};
use super::{api, say};
use crate::stock::{LOST, Stock};
use container::cdi::Spec;
use container::{Edits, EditsError};
use protocol::{Control, ControlError, NewSlice, is_slice_name};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What the name of a claim's slice begins with; its UID follows.
const SLICE: &str = "claim-";

/// Vendor and class of what the container runtime adds.
const KIND: &str = "ringfence.dev/claim";

/// How to run the driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name in the cluster.
    pub node: String,
    /// Bytes of a unit.
    pub unit: u64,
    /// Bytes of device memory that are handed out; `None`: fifteen sixteenths of
    /// the device's.
    pub memory: Option<u64>,
    /// How they are allocated.
    pub sharing: Sharing,
    /// The manager's folder of slices, which has the same path on the host.
    pub slices: PathBuf,
    /// The folder of Ringfence's libraries on the host.
    pub libraries: PathBuf,
    /// Where this process sees it.
    pub libraries_here: PathBuf,
    /// The folder in which the kubelet looks for sockets.
    pub registry: PathBuf,
    /// The driver's own folder, for the socket at which the kubelet calls it. It has
    /// the same path on the host.
    pub folder: PathBuf,
    /// The folder in which the container runtime looks for descriptions of devices.
    pub cdi: PathBuf,
    /// The API server.
    pub access: Access,
}

/// A claim is not prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The kubelet names no claim.
    #[error("`{0}` is no UID of a claim")]
    Uid(String),
    /// The cluster does not know it.
    #[error("the cluster has no claim {namespace}/{name}")]
    Unknown {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// What was allocated.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The manager.
    #[error(transparent)]
    Manager(#[from] ControlError),
    /// The device has failed, or has no memory to hand out.
    #[error("{0}")]
    Device(String),
    /// More than a tenant may have.
    #[error(
        "{asked} bytes are allocated to the claim, and the manager gives a tenant {most}; start it with a larger --memory-per-tenant"
    )]
    TooMuch {
        /// Bytes of the claim.
        asked: u64,
        /// Bytes that a tenant may have.
        most: u64,
    },
    /// It was prepared before, and is another slice now.
    #[error(
        "the claim was prepared as a slice of {before} bytes, with another --unit, and is one of {now}; its pods have to end first"
    )]
    Resized {
        /// Bytes then.
        before: u64,
        /// Bytes now.
        now: u64,
    },
    /// The libraries.
    #[error(transparent)]
    Edits(#[from] EditsError),
    /// The file for the container runtime.
    #[error("{} cannot be written: {error}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// The driver.
pub(crate) struct Driver {
    options: Options,
    pool: Pool,
    /// Held while slices and files are changed, so that each call finds what the one
    /// before has left.
    changing: Mutex<()>,
}

impl Driver {
    /// A driver with these options.
    pub(crate) fn new(options: Options) -> Driver {
        let pool = Pool {
            node: options.node.clone(),
            unit: options.unit,
            sharing: options.sharing,
        };
        Driver {
            options,
            pool,
            changing: Mutex::new(()),
        }
    }

    /// Its options.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// What it hands out.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// How much of it there is.
    pub(crate) fn stock(&self) -> Stock {
        Stock {
            slices: self.options.slices.clone(),
            unit: self.options.unit,
            memory: self.options.memory,
            most: MOST_UNITS,
        }
    }

    /// Prepares a claim: asks what was allocated to it, makes its slice, and
    /// describes that to the container runtime. What is there already stays.
    pub(crate) async fn prepare(
        self: &std::sync::Arc<Driver>,
        cluster: &Cluster,
        claim: &api::Claim,
    ) -> Result<Vec<api::Device>, PrepareError> {
        let uid = uid(claim)?;
        let found = cluster.claim(&claim.namespace, &claim.name).await?;
        let found = found.ok_or_else(|| PrepareError::Unknown {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
        })?;
        let driver = std::sync::Arc::clone(self);
        // The manager is asked over a socket.
        let made = tokio::task::spawn_blocking(move || driver.make(&uid, &found)).await;
        made.map_err(|error| PrepareError::Device(error.to_string()))?
    }

    /// Takes back what preparing a claim has made, if anything of it is there.
    pub(crate) async fn unprepare(
        self: &std::sync::Arc<Driver>,
        claim: &api::Claim,
    ) -> Result<(), PrepareError> {
        let uid = uid(claim)?;
        let driver = std::sync::Arc::clone(self);
        let unmade = tokio::task::spawn_blocking(move || driver.unmake(&uid)).await;
        unmade.map_err(|error| PrepareError::Device(error.to_string()))?
    }

    fn make(&self, uid: &str, claim: &ResourceClaim) -> Result<Vec<api::Device>, PrepareError> {
        let _changing = self
            .changing
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        let units = self.stock().units().map_err(PrepareError::Device)?;
        let wanted = prepared(claim, uid, &self.pool, units)?;
        let folder = self.slice(uid, wanted.memory)?;
        let options = &self.options;
        let mut edits = Edits::new(&folder, &options.libraries, &options.libraries_here)?;
        if let Some(bytes) = wanted.process_memory {
            edits.set_option("tenant-memory", &bytes.to_string());
        }
        let text = Spec::of_kind(KIND, [(uid, &edits)]).to_json();
        let path = self.file(uid);
        let written = text.map_err(std::io::Error::other);
        let written = written.and_then(|text| write(&path, &text));
        written.map_err(|error| PrepareError::File { path, error })?;
        Ok(self.devices(uid, &wanted))
    }

    /// The folder of a claim's slice, which is made unless it is there.
    fn slice(&self, uid: &str, memory: u64) -> Result<PathBuf, PrepareError> {
        let mut control = Control::connect(&self.options.slices)?;
        let state = control.state()?;
        if state.is_lost {
            return Err(PrepareError::Device(LOST.into()));
        }
        if memory > state.memory_per_tenant {
            return Err(PrepareError::TooMuch {
                asked: memory,
                most: state.memory_per_tenant,
            });
        }
        let name = format!("{SLICE}{uid}");
        // As the manager rounds.
        let rounded = memory.next_multiple_of(model::layout::fence::HEADROOM);
        match state.slices.iter().find(|slice| slice.name == name) {
            Some(slice) if slice.memory == rounded => Ok(slice.folder.clone()),
            Some(slice) => Err(PrepareError::Resized {
                before: slice.memory,
                now: rounded,
            }),
            None => {
                let made = control.add(NewSlice {
                    name,
                    memory,
                    owner: None,
                })?;
                Ok(made.folder)
            }
        }
    }

    /// What the kubelet is told. Containers name a claim, or one of its requests, and
    /// get the slice in both cases: each request has it once.
    fn devices(&self, uid: &str, wanted: &Prepared) -> Vec<api::Device> {
        let mut named = BTreeSet::new();
        let device = |device: &PreparedDevice| api::Device {
            request_names: vec![device.request.clone()],
            pool_name: self.pool.node.clone(),
            device_name: device.name.clone(),
            cdi_device_ids: match named.insert(device.request.clone()) {
                true => vec![format!("{KIND}={uid}")],
                false => Vec::new(),
            },
            share_id: device.share.clone(),
        };
        wanted.devices.iter().map(device).collect()
    }

    fn unmake(&self, uid: &str) -> Result<(), PrepareError> {
        let _changing = self
            .changing
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        let path = self.file(uid);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(PrepareError::File { path, error });
            }
            _ => {}
        }
        let mut control = Control::connect(&self.options.slices)?;
        Ok(control.remove(&format!("{SLICE}{uid}"))?)
    }

    /// The file of a claim, for the container runtime.
    fn file(&self, uid: &str) -> PathBuf {
        let name = format!("{}-{uid}.json", KIND.replace('/', "-"));
        self.options.cdi.join(name)
    }
}

/// The UID of a claim, which becomes part of names.
fn uid(claim: &api::Claim) -> Result<String, PrepareError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let name = format!("{SLICE}{}", claim.uid);
    match claim.uid.bytes().all(is_plain) && !claim.uid.is_empty() && is_slice_name(&name) {
        true => Ok(claim.uid.clone()),
        false => Err(PrepareError::Uid(claim.uid.clone())),
    }
}

/// Writes a file, so that nobody ever reads a part of it.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    if std::fs::read_to_string(path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    // Readers look for names that end in `.json`.
    let temporary = path.with_extension("json.new");
    let mut file = std::fs::File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let renamed = std::fs::rename(&temporary, path);
    if renamed.is_err() && std::fs::remove_file(&temporary).is_err() {
        say(&format!("{} is left over", temporary.display()));
    }
    renamed
}
