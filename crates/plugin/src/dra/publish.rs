//! Keeps what the cluster is told of the node as things are.

use super::cluster::{Cluster, ClusterError};
use super::resource_slices::{Owner, Pool, ResourceSlice, Sharing, resource_slices};
use super::{DRIVER, say};
use crate::health::Health;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often the objects are looked at: a kubelet that starts removes them all.
const PERIOD: Duration = Duration::from_secs(10);

/// How long after a failure the next attempt is made.
const AGAIN: Duration = Duration::from_secs(1);

/// What the node has cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The cluster forgets what makes the difference.
    #[error(
        "the cluster does not keep that claims may have parts of a device; enable its feature DRAConsumableCapacity, or leave out --capacity"
    )]
    Feature,
    /// The cluster changes what it is told.
    #[error("the cluster changes what the object {0} says")]
    Changed(String),
}

/// What has to be done about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Create(ResourceSlice),
    Replace(ResourceSlice),
    Remove(String),
}

/// What makes the objects `existing` those that are `wanted`. Whenever one of them
/// changes, all get the next generation, so that nobody takes a part of the old
/// state and a part of the new one for the whole.
fn changes(wanted: &[ResourceSlice], existing: &[ResourceSlice]) -> Vec<Change> {
    let mut left: BTreeMap<&str, &ResourceSlice> = existing
        .iter()
        .map(|object| (object.metadata.name.as_str(), object))
        .collect();
    let newest = existing.iter().map(|object| object.spec.pool.generation);
    let newest = newest.max().unwrap_or(0);
    let is_same = |wanted: &ResourceSlice| {
        let found = left.get(wanted.metadata.name.as_str());
        found.is_some_and(|found| {
            let mut spec = wanted.spec.clone();
            spec.pool.generation = newest;
            spec == found.spec
                && wanted.metadata.owner_references == found.metadata.owner_references
        })
    };
    if existing.len() == wanted.len() && wanted.iter().all(is_same) {
        return Vec::new();
    }
    let mut changes = Vec::new();
    for object in wanted {
        let mut object = object.clone();
        object.spec.pool.generation = newest.saturating_add(1);
        changes.push(match left.remove(object.metadata.name.as_str()) {
            Some(found) => {
                object.metadata.resource_version = found.metadata.resource_version.clone();
                Change::Replace(object)
            }
            None => Change::Create(object),
        });
    }
    changes.extend(left.into_keys().map(|name| Change::Remove(name.into())));
    changes
}

/// Publishes for ever what the node has, as `health` says.
///
/// # Errors
///
/// See [`PublishError`]. A server that cannot be reached is waited for.
pub(crate) async fn publish(
    cluster: Arc<Cluster>,
    pool: Pool,
    mut health: watch::Receiver<Health>,
) -> PublishError {
    let mut last = None;
    let mut why = String::new();
    loop {
        let units = health.borrow_and_update().healthy;
        let wait = match once(&cluster, &pool, units).await {
            Ok(()) => {
                if last.replace(units) != Some(units) || !why.is_empty() {
                    say(&format!("the cluster knows of {units} units"));
                }
                why.clear();
                PERIOD
            }
            Err(Failure::Final(error)) => return error,
            Err(Failure::Cluster(error)) => {
                let text = error.to_string();
                if text != why {
                    say(&format!("what the node has cannot be published: {text}"));
                    why = text;
                }
                AGAIN
            }
        };
        // Whoever changes the health is gone only when the process ends.
        let _ = tokio::time::timeout(wait, health.changed()).await;
    }
}

enum Failure {
    Cluster(ClusterError),
    Final(PublishError),
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Failure {
        Failure::Cluster(error)
    }
}

async fn once(cluster: &Cluster, pool: &Pool, units: usize) -> Result<(), Failure> {
    let owner = Owner {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: pool.node.clone(),
        uid: cluster.node(&pool.node).await?,
    };
    let mut wanted = resource_slices(pool, units);
    for object in &mut wanted {
        object.metadata.owner_references = vec![owner.clone()];
    }
    let existing = cluster.resource_slices(DRIVER, &pool.node).await?;
    for change in changes(&wanted, &existing) {
        let done = match &change {
            Change::Remove(name) => cluster.remove(name).await.map(|()| None),
            Change::Create(object) => cluster
                .create(object)
                .await
                .map(|kept| Some((object, kept))),
            Change::Replace(object) => cluster
                .replace(object)
                .await
                .map(|kept| Some((object, kept))),
        };
        match done {
            Ok(Some((object, kept))) if kept.spec != object.spec => {
                let error = match pool.sharing {
                    Sharing::Capacity => PublishError::Feature,
                    Sharing::Units => PublishError::Changed(object.metadata.name.clone()),
                };
                // Nobody may be given what is not what it says.
                let withdrawn = cluster.remove(&object.metadata.name).await;
                return Err(withdrawn.map_or_else(Failure::from, |()| Failure::Final(error)));
            }
            Ok(_) => {}
            // The next round sees how things are.
            Err(error) if error.is_conflict() || error.is_missing() => return Err(error.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool() -> Pool {
        Pool {
            node: "n".into(),
            unit: 1 << 30,
            sharing: Sharing::Units,
        }
    }

    /// A server: what it has after changes.
    fn after(existing: &[ResourceSlice], changes: &[Change]) -> Vec<ResourceSlice> {
        let mut all: BTreeMap<String, ResourceSlice> = existing
            .iter()
            .map(|object| (object.metadata.name.clone(), object.clone()))
            .collect();
        for change in changes {
            match change {
                Change::Create(object) => {
                    assert!(object.metadata.resource_version.is_none());
                    let old = all.insert(object.metadata.name.clone(), object.clone());
                    assert_eq!(old, None);
                }
                Change::Replace(object) => {
                    let found = all.get_mut(&object.metadata.name).expect("an object");
                    assert_eq!(
                        found.metadata.resource_version,
                        object.metadata.resource_version
                    );
                    *found = object.clone();
                }
                Change::Remove(name) => assert!(all.remove(name).is_some()),
            }
        }
        let mut all: Vec<_> = all.into_values().collect();
        for object in &mut all {
            object.metadata.resource_version = Some("1".into());
        }
        all
    }

    proptest! {
        #[test]
        fn a_server_gets_what_is_wanted_and_then_nothing(
            steps in prop::collection::vec((0usize..700, any::<bool>(), 0usize..6), 1..8),
        ) {
            let mut existing = Vec::new();
            for (units, forgets, which) in steps {
                let wanted = resource_slices(&pool(), units);
                let before = existing.iter().map(|object: &ResourceSlice| object.spec.pool.generation).max();
                existing = after(&existing, &changes(&wanted, &existing));
                prop_assert_eq!(changes(&wanted, &existing), []);
                prop_assert_eq!(existing.len(), wanted.len());
                let generation = existing[0].spec.pool.generation;
                prop_assert!(before.is_none_or(|before| generation >= before));
                let devices: usize = existing.iter().map(|object| object.spec.devices.len()).sum();
                prop_assert_eq!(devices, units);
                for object in &existing {
                    prop_assert_eq!(object.spec.pool.generation, generation);
                    prop_assert_eq!(object.spec.pool.resource_slice_count, existing.len() as i64);
                }
                // Somebody removes one.
                if forgets && which < existing.len() {
                    existing.remove(which);
                    prop_assert_ne!(changes(&wanted, &existing), []);
                }
            }
        }
    }

    #[test]
    fn another_owner_is_replaced() {
        let existing = after(&[], &changes(&resource_slices(&pool(), 2), &[]));
        let mut wanted = resource_slices(&pool(), 2);
        wanted[0].metadata.owner_references = vec![Owner {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: "n".into(),
            uid: "another".into(),
        }];
        let [Change::Replace(object)] = &changes(&wanted, &existing)[..] else {
            panic!("one change");
        };
        assert_eq!(object.spec.pool.generation, 2);
    }
}
