//! The kubelet's interface to drivers of dynamic resource allocation, version v1
//! (Kubernetes 1.34) and v1beta1 (1.32), whose messages have the same bytes but for
//! one field, and its interface for the registration of plugins, as far as they are a
//! matter of bytes.
//! `tests/dra.proto`, `tests/dra-beta.proto` and `tests/pluginregistration.proto`
//! declare the same, and a test compares them.

use crate::messages::messages;
use std::collections::HashMap;

/// The folder in which the kubelet looks for the sockets of plugins.
pub const REGISTRY: &str = "/var/lib/kubelet/plugins_registry";

/// The folder in which each plugin has a folder of its own.
pub const PLUGINS: &str = "/var/lib/kubelet/plugins";

/// What a driver is among plugins.
pub const PLUGIN_TYPE: &str = "DRAPlugin";

/// The versions that a driver speaks, the best one first.
pub const VERSIONS: [&str; 2] = ["v1.DRAPlugin", "v1beta1.DRAPlugin"];

/// Paths of calls.
pub mod calls {
    /// Which plugin is it?
    pub const INFO: &str = "/pluginregistration.Registration/GetInfo";
    /// Whether the kubelet has taken it.
    pub const STATUS: &str = "/pluginregistration.Registration/NotifyRegistrationStatus";
    /// A pod is about to start.
    pub const PREPARE: &str = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources";
    /// A pod has ended.
    pub const UNPREPARE: &str = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources";
    /// [`PREPARE`] of v1beta1.
    pub const PREPARE_BETA: &str =
        "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources";
    /// [`UNPREPARE`] of v1beta1.
    pub const UNPREPARE_BETA: &str =
        "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources";
}

messages! {
    /// Which plugin is it?
    InfoRequest {}

    /// A plugin.
    PluginInfo {
        /// [`PLUGIN_TYPE`]
        "1" kind (string): String,
        /// The driver's name.
        "2" name (string): String,
        /// Path of the socket at which it is called.
        "3" endpoint (string): String,
        /// [`VERSIONS`]
        "4" supported_versions (string, repeated): Vec<String>,
    }

    /// Whether the kubelet has taken a plugin.
    RegistrationStatus {
        /// It has.
        "1" plugin_registered (bool): bool,
        /// Why not.
        "2" error (string): String,
    }

    /// The plugin knows.
    RegistrationStatusResponse {}

    /// A claim, by its names.
    Claim {
        /// Its namespace.
        "1" namespace (string): String,
        /// Which one of those that have had its name.
        "2" uid (string): String,
        /// Its name.
        "3" name (string): String,
    }

    /// Pods that use these claims are about to start.
    NodePrepareResourcesRequest {
        /// The claims.
        "1" claims (message, repeated): Vec<Claim>,
    }

    /// What was done for each claim, by its UID.
    NodePrepareResourcesResponse {
        /// One answer for each.
        "1" claims (map = "string, message"): HashMap<String, NodePrepareResourceResponse>,
    }

    /// What was done for a claim.
    NodePrepareResourceResponse {
        /// What its containers get.
        "1" devices (message, repeated): Vec<Device>,
        /// Why it was not prepared; else empty.
        "2" error (string): String,
    }

    /// A device of a claim.
    Device {
        /// The requests of the claim that it is for.
        "1" request_names (string, repeated): Vec<String>,
        /// Its pool.
        "2" pool_name (string): String,
        /// Its name.
        "3" device_name (string): String,
        /// What the container runtime adds to containers: devices of the Container
        /// Device Interface.
        "4" cdi_device_ids (string, repeated): Vec<String>,
        /// Which part of the device, where claims have parts; not in v1beta1.
        "5" share_id (string, optional): Option<String>,
    }

    /// The last pod that used these claims on this node has ended.
    NodeUnprepareResourcesRequest {
        /// The claims.
        "1" claims (message, repeated): Vec<Claim>,
    }

    /// What was done for each claim, by its UID.
    NodeUnprepareResourcesResponse {
        /// One answer for each.
        "1" claims (map = "string, message"): HashMap<String, NodeUnprepareResourceResponse>,
    }

    /// What was done for a claim.
    NodeUnprepareResourceResponse {
        /// Why it is still prepared; else empty.
        "1" error (string): String,
    }
}
