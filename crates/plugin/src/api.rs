//! The kubelet's interface to device plugins, version v1beta1 (Kubernetes 1.10
//! and later), as far as it is a matter of bytes: messages and names of calls.
//! `tests/deviceplugin.proto` declares the same, and a test compares them.

use crate::messages::messages;
use std::collections::HashMap;

/// The version that both sides name.
pub const VERSION: &str = "v1beta1";

/// The folder of the sockets of the kubelet and of device plugins.
pub const FOLDER: &str = "/var/lib/kubelet/device-plugins";

/// The kubelet's socket in it.
pub const KUBELET_SOCKET: &str = "kubelet.sock";

/// A unit that can be allocated.
pub const HEALTHY: &str = "Healthy";

/// A unit that cannot.
pub const UNHEALTHY: &str = "Unhealthy";

/// Paths of calls.
pub mod calls {
    /// Of the kubelet.
    pub const REGISTER: &str = "/v1beta1.Registration/Register";
    /// Of a plugin.
    pub const OPTIONS: &str = "/v1beta1.DevicePlugin/GetDevicePluginOptions";
    /// Of a plugin; the answer is a stream.
    pub const LIST: &str = "/v1beta1.DevicePlugin/ListAndWatch";
    /// Of a plugin.
    pub const PREFER: &str = "/v1beta1.DevicePlugin/GetPreferredAllocation";
    /// Of a plugin.
    pub const ALLOCATE: &str = "/v1beta1.DevicePlugin/Allocate";
    /// Of a plugin.
    pub const PRE_START: &str = "/v1beta1.DevicePlugin/PreStartContainer";
}

messages! {
    /// No value.
    Empty {}

    /// What a plugin can do.
    DevicePluginOptions {
        /// PreStartContainer is called before each start of a container.
        "1" pre_start_required (bool): bool,
        /// GetPreferredAllocation may be called.
        "2" get_preferred_allocation_available (bool): bool,
    }

    /// A plugin to the kubelet: here I am.
    RegisterRequest {
        /// [`VERSION`]
        "1" version (string): String,
        /// File name of the plugin's socket in [`FOLDER`].
        "2" endpoint (string): String,
        /// The resource.
        "3" resource_name (string): String,
        /// What it can do.
        "4" options (message, optional): Option<DevicePluginOptions>,
    }

    /// All units, whenever one of them changes.
    ListAndWatchResponse {
        /// The units.
        "1" devices (message, repeated): Vec<Device>,
    }

    /// Where a unit lies.
    TopologyInfo {
        /// The nodes.
        "1" nodes (message, repeated): Vec<NumaNode>,
    }

    /// A node of memory.
    NumaNode {
        /// Its number.
        "1" id (int64): i64,
    }

    /// A unit.
    Device {
        /// Its name, at most 63 characters.
        "1" id (string): String,
        /// [`HEALTHY`] or [`UNHEALTHY`]
        "2" health (string): String,
        /// Where it lies, if that matters.
        "3" topology (message, optional): Option<TopologyInfo>,
    }

    /// These units are for a container that is about to start.
    PreStartContainerRequest {
        /// Their names.
        "1" devices_ids (string, repeated): Vec<String>,
    }

    /// It may start.
    PreStartContainerResponse {}

    /// Which units would be best?
    PreferredAllocationRequest {
        /// For each container.
        "1" container_requests (message, repeated): Vec<ContainerPreferredAllocationRequest>,
    }

    /// For one container.
    ContainerPreferredAllocationRequest {
        /// Units that are free.
        "1" available_device_ids (string, repeated): Vec<String>,
        /// Of those, units that it gets in any case.
        "2" must_include_device_ids (string, repeated): Vec<String>,
        /// How many it gets.
        "3" allocation_size (int32): i32,
    }

    /// These units would be best.
    PreferredAllocationResponse {
        /// For each container.
        "1" container_responses (message, repeated): Vec<ContainerPreferredAllocationResponse>,
    }

    /// For one container.
    ContainerPreferredAllocationResponse {
        /// Their names.
        "1" device_ids (string, repeated): Vec<String>,
    }

    /// Containers get these units.
    AllocateRequest {
        /// Each container.
        "1" container_requests (message, repeated): Vec<ContainerAllocateRequest>,
    }

    /// One container.
    ContainerAllocateRequest {
        /// Names of its units.
        "1" devices_ids (string, repeated): Vec<String>,
    }

    /// A device of the Container Device Interface.
    CdiDevice {
        /// Its name with vendor and class.
        "1" name (string): String,
    }

    /// What containers need.
    AllocateResponse {
        /// Each container.
        "1" container_responses (message, repeated): Vec<ContainerAllocateResponse>,
    }

    /// What one container needs.
    ContainerAllocateResponse {
        /// Environment variables.
        "1" envs (map = "string, string"): HashMap<String, String>,
        /// Files and folders.
        "2" mounts (message, repeated): Vec<Mount>,
        /// Device files.
        "3" devices (message, repeated): Vec<DeviceSpec>,
        /// Annotations for the container runtime.
        "4" annotations (map = "string, string"): HashMap<String, String>,
        /// Devices of the Container Device Interface.
        "5" cdi_devices (message, repeated): Vec<CdiDevice>,
    }

    /// A file or folder of the host.
    Mount {
        /// Its path in the container.
        "1" container_path (string): String,
        /// Its path on the host.
        "2" host_path (string): String,
        /// The container cannot write it.
        "3" read_only (bool): bool,
    }

    /// A device file.
    DeviceSpec {
        /// Its path in the container.
        "1" container_path (string): String,
        /// Its path on the host.
        "2" host_path (string): String,
        /// `r`, `w`, `m`
        "3" permissions (string): String,
    }
}
