//! From a claim to the slice that it is.

use super::DRIVER;
use super::quantity::{QuantityError, quantity};
use super::resource_slices::{MEMORY, Pool, Sharing, WHOLE, unit_of};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Version and kind of the parameters that a claim or a DeviceClass may have for the
/// driver.
pub const PARAMETERS: (&str, &str) = ("ringfence.dev/v1", "SliceParameters");

/// A claim, as the API server has it (`resource.k8s.io/v1`), as far as it matters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    metadata: ClaimMetadata,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimMetadata {
    uid: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    allocation: Option<Allocation>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Allocation {
    devices: Devices,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Devices {
    results: Vec<Allocated>,
    config: Vec<Configuration>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Allocated {
    request: String,
    driver: String,
    pool: String,
    device: String,
    admin_access: bool,
    consumed_capacity: BTreeMap<String, String>,
    #[serde(rename = "shareID")]
    share_id: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Configuration {
    requests: Vec<String>,
    opaque: Option<Opaque>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Opaque {
    driver: String,
    parameters: serde_json::Value,
}

/// What may be said of a slice beside its size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Parameters {
    api_version: String,
    kind: String,
    /// Memory of each process that names none.
    process_memory: Option<String>,
}

/// What a claim is on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Bytes of its slice.
    pub memory: u64,
    /// Bytes that a process gets which names no number; `None`: what is left.
    pub process_memory: Option<u64>,
    /// Its devices.
    pub devices: Vec<PreparedDevice>,
}

/// A device of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedDevice {
    /// The request that it was allocated for.
    pub request: String,
    /// Its name.
    pub name: String,
    /// Which part of it, where claims have parts.
    pub share: Option<String>,
}

/// A claim that is no slice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// Its name is another claim's now.
    #[error("the claim is gone: the cluster has another one of its name")]
    Another,
    /// Nothing was allocated to it.
    #[error("nothing is allocated to the claim")]
    NotAllocated,
    /// What was allocated to it is of other drivers.
    #[error("no device of the driver {DRIVER} is allocated to the claim, but one of {0}")]
    Driver(String),
    /// A device of another node.
    #[error("the device `{device}` is of the pool `{pool}`, and this node's is `{node}`")]
    Pool {
        /// The device.
        device: String,
        /// Its pool.
        pool: String,
        /// This node's.
        node: String,
    },
    /// There is no such device.
    #[error("there is no device `{0}` on this node")]
    Device(String),
    /// A device that others have.
    #[error(
        "the request `{0}` asks for administrative access, and there is nothing that it could reach"
    )]
    Administrator(String),
    /// Twice the same device.
    #[error("the device `{0}` is allocated twice")]
    Twice(String),
    /// The amount of memory is missing.
    #[error(
        "the allocation of `{0}` does not say how much memory; the cluster needs the feature DRAConsumableCapacity"
    )]
    NoAmount(String),
    /// The amount of memory cannot be read.
    #[error("the allocation of `{device}`: {error}")]
    Amount {
        /// The device.
        device: String,
        /// Why.
        error: QuantityError,
    },
    /// No memory, or more than there can be.
    #[error("{0} bytes of memory are allocated in all, which is no slice")]
    Memory(u128),
    /// The parameters cannot be read.
    #[error("the parameters for {DRIVER} are wrong: {0}")]
    Parameters(String),
    /// Different parameters in one claim.
    #[error("the requests of the claim have different parameters, and a claim is one slice")]
    Differ,
}

/// What a claim with this UID is on the node that has this pool, of so many units. A
/// claim is one slice, of what all of its requests got together.
///
/// # Errors
///
/// See [`ClaimError`].
pub fn prepared(
    claim: &ResourceClaim,
    uid: &str,
    pool: &Pool,
    units: usize,
) -> Result<Prepared, ClaimError> {
    if claim.metadata.uid != uid {
        return Err(ClaimError::Another);
    }
    let allocation = claim.status.allocation.as_ref();
    let devices = &allocation.ok_or(ClaimError::NotAllocated)?.devices;
    let is_own = |result: &&Allocated| result.driver == DRIVER;
    let own: Vec<&Allocated> = devices.results.iter().filter(is_own).collect();
    if own.is_empty() {
        return Err(match devices.results.first() {
            Some(other) => ClaimError::Driver(other.driver.clone()),
            None => ClaimError::NotAllocated,
        });
    }
    let mut seen = BTreeSet::new();
    let mut memory = 0u128;
    for result in &own {
        memory += u128::from(bytes(result, pool, units)?);
        if pool.sharing == Sharing::Units && !seen.insert(&result.device) {
            return Err(ClaimError::Twice(result.device.clone()));
        }
    }
    let memory = match u64::try_from(memory) {
        Ok(memory) if memory > 0 && memory < 1 << 63 => memory,
        _ => return Err(ClaimError::Memory(memory)),
    };
    let mut each = own
        .iter()
        .map(|result| parameters(&devices.config, &result.request));
    let first = each.next().transpose()?.unwrap_or_default();
    for other in each {
        if other? != first {
            return Err(ClaimError::Differ);
        }
    }
    let process_memory = first.process_memory.as_deref().map(quantity).transpose();
    let process_memory = process_memory
        .map_err(|error| ClaimError::Parameters(format!("processMemory: {error}")))?;
    if let Some(bytes) = process_memory.filter(|bytes| *bytes == 0 || *bytes > memory) {
        return Err(ClaimError::Parameters(format!(
            "processMemory: {bytes} bytes are not between 1 and the claim's {memory}"
        )));
    }
    let devices = own.iter().map(|result| {
        // A request with alternatives is named with the one that was chosen, and
        // the kubelet knows it by its own name.
        let request = result.request.split('/').next().unwrap_or_default();
        PreparedDevice {
            request: request.to_owned(),
            name: result.device.clone(),
            share: result.share_id.clone(),
        }
    });
    Ok(Prepared {
        memory,
        process_memory,
        devices: devices.collect(),
    })
}

/// Bytes of memory that a device stands for.
fn bytes(result: &Allocated, pool: &Pool, units: usize) -> Result<u64, ClaimError> {
    let device = || result.device.clone();
    if result.pool != pool.node {
        return Err(ClaimError::Pool {
            device: device(),
            pool: result.pool.clone(),
            node: pool.node.clone(),
        });
    }
    if result.admin_access {
        return Err(ClaimError::Administrator(result.request.clone()));
    }
    match pool.sharing {
        Sharing::Units => match unit_of(&result.device) {
            Some(number) if number < units => Ok(pool.unit),
            _ => Err(ClaimError::Device(device())),
        },
        Sharing::Capacity if result.device != WHOLE => Err(ClaimError::Device(device())),
        Sharing::Capacity => {
            let with_driver = format!("{DRIVER}/{MEMORY}");
            let consumed = &result.consumed_capacity;
            let amount = consumed.get(MEMORY).or_else(|| consumed.get(&with_driver));
            let amount = amount.ok_or_else(|| ClaimError::NoAmount(device()))?;
            quantity(amount).map_err(|error| ClaimError::Amount {
                device: device(),
                error,
            })
        }
    }
}

/// The parameters of a request. Those of its class come first, and those of the
/// claim itself replace them.
fn parameters(all: &[Configuration], request: &str) -> Result<Parameters, ClaimError> {
    let main = request.split('/').next().unwrap_or_default();
    let mut found = Parameters::default();
    for configuration in all {
        let Some(opaque) = configuration.opaque.as_ref() else {
            continue;
        };
        let names = &configuration.requests;
        let is_for = names.is_empty() || names.iter().any(|name| name == request || name == main);
        if opaque.driver != DRIVER || !is_for {
            continue;
        }
        let wrong = |why: String| ClaimError::Parameters(why);
        let next = Parameters::deserialize(&opaque.parameters);
        let next = next.map_err(|error| wrong(error.to_string()))?;
        let (version, kind) = PARAMETERS;
        if (next.api_version.as_str(), next.kind.as_str()) != (version, kind) {
            return Err(wrong(format!(
                "`{}` `{}` is not `{version}` `{kind}`",
                next.api_version, next.kind
            )));
        }
        found.process_memory = next.process_memory.or(found.process_memory);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pool(sharing: Sharing) -> Pool {
        Pool {
            node: "node".into(),
            unit: 1 << 30,
            sharing,
        }
    }

    fn of(results: Value, config: Value, sharing: Sharing) -> Result<Prepared, ClaimError> {
        let claim = json!({
            "metadata": { "uid": "u", "name": "c" },
            "spec": {},
            "status": { "allocation": { "devices": { "results": results, "config": config } } }
        });
        let claim = ResourceClaim::deserialize(&claim).expect("a claim");
        prepared(&claim, "u", &pool(sharing), 8)
    }

    fn unit(request: &str, device: &str) -> Value {
        json!({ "request": request, "driver": DRIVER, "pool": "node", "device": device })
    }

    fn with(requests: Value, parameters: Value) -> Value {
        json!({
            "source": "FromClaim",
            "requests": requests,
            "opaque": { "driver": DRIVER, "parameters": parameters }
        })
    }

    fn slice_parameters(process_memory: Value) -> Value {
        json!({
            "apiVersion": "ringfence.dev/v1",
            "kind": "SliceParameters",
            "processMemory": process_memory
        })
    }

    #[test]
    fn a_claim_is_one_slice() {
        let results = json!([
            unit("a", "unit-0"),
            { "request": "other", "driver": "nic.example.com", "pool": "p", "device": "d" },
            unit("b/small", "unit-7"),
        ]);
        let found = of(results, json!([]), Sharing::Units).unwrap();
        let device = |request: &str, name: &str| PreparedDevice {
            request: request.into(),
            name: name.into(),
            share: None,
        };
        let expected = Prepared {
            memory: 2 << 30,
            process_memory: None,
            devices: vec![device("a", "unit-0"), device("b", "unit-7")],
        };
        assert_eq!(found, expected);
        let part = |amount: &str| {
            let mut part = unit("a", "gpu");
            part["consumedCapacity"] = json!({ "memory": amount });
            part["shareID"] = json!(amount);
            part
        };
        let parts = json!([part("3Gi"), part("64Mi")]);
        let found = of(parts, json!([]), Sharing::Capacity).unwrap();
        assert_eq!(found.memory, (3 << 30) + (64 << 20));
        let shares = found.devices.iter().map(|device| device.share.as_deref());
        assert_eq!(shares.collect::<Vec<_>>(), [Some("3Gi"), Some("64Mi")]);
    }

    #[test]
    fn parameters_of_the_claim_replace_those_of_the_class() {
        let results = json!([unit("a", "unit-0"), unit("b/x", "unit-1")]);
        let config = json!([
            with(json!(["a"]), slice_parameters(json!("512Mi"))),
            with(json!(["b"]), slice_parameters(json!("256Mi"))),
            { "source": "FromClass", "opaque": { "driver": "other.example.com", "parameters": 7 } },
            with(json!([]), slice_parameters(json!("1Gi"))),
            with(json!([]), slice_parameters(Value::Null)),
        ]);
        let found = of(results.clone(), config, Sharing::Units).unwrap();
        assert_eq!(found.process_memory, Some(1 << 30));
        let config = json!([with(json!(["b/x"]), slice_parameters(json!("1Gi")))]);
        let error = of(results, config, Sharing::Units).unwrap_err();
        assert_eq!(error, ClaimError::Differ);
    }

    #[test]
    fn what_is_no_slice_is_one_error() {
        let units = |results| of(results, json!([]), Sharing::Units).unwrap_err();
        assert_eq!(units(json!([])), ClaimError::NotAllocated);
        let mut other = unit("a", "unit-0");
        other["driver"] = json!("nic.example.com");
        assert_eq!(
            units(json!([other])),
            ClaimError::Driver("nic.example.com".into())
        );
        let mut other = unit("a", "unit-0");
        other["pool"] = json!("elsewhere");
        assert!(matches!(units(json!([other])), ClaimError::Pool { .. }));
        for name in ["unit-01", "unit-8", "unit-9999", "gpu", "", "unit--1"] {
            assert_eq!(
                units(json!([unit("a", name)])),
                ClaimError::Device(name.into())
            );
        }
        let mut admin = unit("a", "unit-0");
        admin["adminAccess"] = json!(true);
        assert_eq!(units(json!([admin])), ClaimError::Administrator("a".into()));
        let twice = json!([unit("a", "unit-0"), unit("b", "unit-0")]);
        assert_eq!(units(twice), ClaimError::Twice("unit-0".into()));

        let mut part = unit("a", "gpu");
        let parts = |part: &Value| of(json!([part, part]), json!([]), Sharing::Capacity);
        assert_eq!(parts(&part), Err(ClaimError::NoAmount("gpu".into())));
        for (amount, is_amount) in [("4Gb", true), ("0", false), ("4Ei", false)] {
            part["consumedCapacity"] = json!({ "gpu-memory.ringfence.dev/memory": amount });
            let error = parts(&part).unwrap_err();
            assert_eq!(
                matches!(error, ClaimError::Amount { .. }),
                is_amount,
                "{error}"
            );
            assert_eq!(
                matches!(error, ClaimError::Memory(_)),
                !is_amount,
                "{error}"
            );
        }
        let claim = ResourceClaim::deserialize(&json!({ "metadata": { "uid": "u" } })).unwrap();
        let of_node = pool(Sharing::Units);
        assert_eq!(prepared(&claim, "v", &of_node, 8), Err(ClaimError::Another));
        assert_eq!(
            prepared(&claim, "u", &of_node, 8),
            Err(ClaimError::NotAllocated)
        );
    }

    #[test]
    fn wrong_parameters_are_named() {
        let mut unknown = slice_parameters(Value::Null);
        unknown["weigth"] = json!(2);
        let mut kind = slice_parameters(Value::Null);
        kind["kind"] = json!("Other");
        for (parameters, part) in [
            (unknown, "weigth"),
            (kind, "`ringfence.dev/v1` `Other` is not"),
            (json!({}), "`` ``"),
            (json!(7), "invalid type"),
            (slice_parameters(json!("2g")), "processMemory: `2g`"),
            (slice_parameters(json!("0")), "processMemory: 0 bytes"),
            (
                slice_parameters(json!("2Gi")),
                "not between 1 and the claim's 1073741824",
            ),
            (slice_parameters(json!(2)), "expected a string"),
        ] {
            let config = json!([with(json!([]), parameters)]);
            let error = of(json!([unit("a", "unit-0")]), config, Sharing::Units).unwrap_err();
            assert!(matches!(error, ClaimError::Parameters(_)), "{error:?}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
