//! What the cluster is told of a node: objects of the kind ResourceSlice
//! (`resource.k8s.io/v1`).

use super::DRIVER;
use super::quantity::written;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Devices in one object at most, says its schema.
pub const DEVICES_PER_SLICE: usize = 128;

/// Units at most.
pub const MOST_UNITS: usize = 8 * DEVICES_PER_SLICE;

/// Version of the objects.
pub(crate) const API_VERSION: &str = "resource.k8s.io/v1";

const KIND: &str = "ResourceSlice";

/// The amount that a device has.
pub(crate) const MEMORY: &str = "memory";

/// The device, where all memory is one.
pub(crate) const WHOLE: &str = "gpu";

/// What the name of a unit begins with.
const UNIT: &str = "unit-";

/// How a node's memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each unit is a device, and a claim asks for a number of them: 32 at most,
    /// says the schema of claims.
    Units,
    /// All memory is one device, and a claim asks for an amount of it: a multiple of
    /// a unit. The cluster needs the feature `DRAConsumableCapacity`.
    Capacity,
}

/// The memory of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The node's name, which is the pool's, too.
    pub node: String,
    /// Bytes of a unit.
    pub unit: u64,
    /// How it is allocated.
    pub sharing: Sharing,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSlice {
    /// `resource.k8s.io/v1`; not in lists.
    #[serde(default)]
    pub api_version: String,
    /// `ResourceSlice`; not in lists.
    #[serde(default)]
    pub kind: String,
    /// Its name, and whose it is.
    pub metadata: Metadata,
    /// What it says.
    pub spec: Spec,
}

/// Name and owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Its name.
    pub name: String,
    /// The cluster removes it with these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<Owner>,
    /// Which version of the object it is; an update of another one is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// An owner of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// Version of its kind.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Which one of those that have had its name.
    pub uid: String,
}

/// What an object says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The driver.
    pub driver: String,
    /// The pool.
    pub pool: PoolPart,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Some of its devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
}

/// Which part of a pool an object is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolPart {
    /// Its name.
    pub name: String,
    /// Which state of the pool it belongs to: the largest one is how things are.
    pub generation: i64,
    /// Of how many objects such a state is.
    pub resource_slice_count: i64,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Its name.
    pub name: String,
    /// How much it has of what.
    #[serde(default)]
    pub capacity: BTreeMap<String, Capacity>,
    /// Several claims may have parts of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_multiple_allocations: Option<bool>,
}

/// How much a device has of something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// All of it.
    pub value: String,
    /// Which parts may be asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_policy: Option<RequestPolicy>,
}

/// Which parts may be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestPolicy {
    /// What a claim gets that names no amount.
    pub default: String,
    /// The others.
    pub valid_range: Range,
}

/// Amounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Range {
    /// The smallest one.
    pub min: String,
    /// How far others are apart. Amounts between are rounded up.
    pub step: String,
}

/// The name of unit `number`.
pub(crate) fn unit_name(number: usize) -> String {
    format!("{UNIT}{number}")
}

/// The unit that has this name.
pub(crate) fn unit_of(name: &str) -> Option<usize> {
    let number = name.strip_prefix(UNIT)?.parse().ok()?;
    (number < MOST_UNITS && unit_name(number) == name).then_some(number)
}

/// The objects for a pool of which so many units can be allocated; one without
/// devices if it is none. Their generation is 0, and they have no owner.
pub fn resource_slices(pool: &Pool, units: usize) -> Vec<ResourceSlice> {
    let units = units.min(MOST_UNITS);
    let devices: Vec<Device> = match pool.sharing {
        _ if units == 0 => Vec::new(),
        Sharing::Units => (0..units)
            .map(|number| Device {
                name: unit_name(number),
                capacity: capacity(pool.unit, None),
                allow_multiple_allocations: None,
            })
            .collect(),
        Sharing::Capacity => {
            let unit = written(pool.unit);
            let policy = RequestPolicy {
                default: unit.clone(),
                valid_range: Range {
                    min: unit.clone(),
                    step: unit,
                },
            };
            let memory = pool.unit.saturating_mul(units as u64);
            vec![Device {
                name: WHOLE.into(),
                capacity: capacity(memory, Some(policy)),
                allow_multiple_allocations: Some(true),
            }]
        }
    };
    let mut parts: Vec<Vec<Device>> = devices
        .chunks(DEVICES_PER_SLICE)
        .map(<[Device]>::to_vec)
        .collect();
    if parts.is_empty() {
        parts.push(Vec::new());
    }
    let count = parts.len() as i64;
    let object = |(number, devices): (usize, Vec<Device>)| ResourceSlice {
        api_version: API_VERSION.into(),
        kind: KIND.into(),
        metadata: Metadata {
            name: format!("{}-{DRIVER}-{number}", pool.node),
            ..Metadata::default()
        },
        spec: Spec {
            driver: DRIVER.into(),
            pool: PoolPart {
                name: pool.node.clone(),
                generation: 0,
                resource_slice_count: count,
            },
            node_name: Some(pool.node.clone()),
            devices,
        },
    };
    parts.into_iter().enumerate().map(object).collect()
}

fn capacity(bytes: u64, request_policy: Option<RequestPolicy>) -> BTreeMap<String, Capacity> {
    let value = written(bytes);
    let capacity = Capacity {
        value,
        request_policy,
    };
    BTreeMap::from([(MEMORY.into(), capacity)])
}
