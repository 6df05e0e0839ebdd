//! A specification for the Container Device Interface (CNCF, version 0.6), by
//! which podman, docker and containerd give a container a device by its name:
//! one device for each slice, `ringfence.dev/gpu=NAME`.

use crate::Edits;
use serde::Serialize;

/// The version of the interface whose fields are used.
pub const VERSION: &str = "0.6.0";

/// Vendor and class of the devices.
pub const KIND: &str = "ringfence.dev/gpu";

/// A specification file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    cdi_version: &'static str,
    kind: String,
    devices: Vec<Device>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    container_edits: ContainerEdits,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerEdits {
    env: Vec<String>,
    mounts: Vec<Mount>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    host_path: String,
    container_path: String,
    options: [&'static str; 5],
}

/// Read-only, and nothing in it gives rights; `bind` is what a mount of a folder
/// is called.
const OPTIONS: [&str; 5] = ["ro", "nosuid", "nodev", "rbind", "rprivate"];

impl Spec {
    /// One device of [`KIND`] for each slice, which is given by its name.
    pub fn new<'e>(slices: impl IntoIterator<Item = (&'e str, &'e Edits)>) -> Spec {
        Spec::of_kind(KIND, slices)
    }

    /// One device of this vendor and class for each slice.
    pub fn of_kind<'e>(kind: &str, slices: impl IntoIterator<Item = (&'e str, &'e Edits)>) -> Spec {
        let device = |(name, edits): (&str, &Edits)| Device {
            name: name.to_owned(),
            container_edits: ContainerEdits {
                env: edits
                    .environment
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect(),
                mounts: edits
                    .mounts
                    .iter()
                    .map(|mount| Mount {
                        host_path: mount.host.display().to_string(),
                        container_path: mount.container.display().to_string(),
                        options: OPTIONS,
                    })
                    .collect(),
            },
        };
        Spec {
            cdi_version: VERSION,
            kind: kind.to_owned(),
            devices: slices.into_iter().map(device).collect(),
        }
    }

    /// As the text of a file.
    ///
    /// # Errors
    ///
    /// None that this data has.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}
