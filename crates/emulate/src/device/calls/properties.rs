//! What the device says about itself.

use crate::device::properties::{
    BLOCKS_PER_SM, MAX_BLOCK, MAX_GRID, MAX_THREADS, SHARED_DEFAULT, SHARED_OPT_IN, SHARED_PER_SM,
    SHARED_RESERVED, THREADS_PER_SM, WARP_SIZE,
};
use crate::device::state::Device;
use driver::sys::CUdevice_attribute as Attribute;

impl Device {
    /// `cuDeviceGetName`
    pub const NAME: &str = "Ringfence CPU device";
    /// `cuDriverGetVersion`
    pub const VERSION: u32 = 13000;
    /// Compute capability, major and minor.
    pub const CAPABILITY: (u32, u32) = (9, 0);
    /// `cuDeviceGetUuid`
    pub const UUID: [u8; 16] = *b"RingfenceCPU\0\0\0\x01";

    /// `cuDeviceTotalMem`: the machine's memory, in bytes.
    pub fn total_memory(&self) -> u64 {
        static TOTAL: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
        *TOTAL.get_or_init(|| {
            let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
            let kibibytes = text
                .lines()
                .find_map(|line| line.strip_prefix("MemTotal:"))
                .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
            // Without /proc the host's overcommit is the only limit.
            kibibytes.map_or(1 << 40, |k| k << 10)
        })
    }

    /// Multiprocessors: one a worker thread.
    pub fn multiprocessors(&self) -> u32 {
        self.state.threads
    }

    /// `cuDeviceGetAttribute`; `None` for an attribute that cuda.h 13.0 does
    /// not list.
    pub fn attribute(&self, attribute: Attribute) -> Option<i32> {
        use Attribute as A;
        if attribute.0 == 0 || attribute.0 >= A::CU_DEVICE_ATTRIBUTE_MAX.0 {
            return None;
        }
        Some(match attribute {
            A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK => MAX_THREADS as i32,
            A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X => MAX_BLOCK[0] as i32,
            A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y => MAX_BLOCK[1] as i32,
            A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z => MAX_BLOCK[2] as i32,
            A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X => MAX_GRID[0] as i32,
            A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y => MAX_GRID[1] as i32,
            A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z => MAX_GRID[2] as i32,
            A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK => SHARED_DEFAULT as i32,
            A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => SHARED_OPT_IN as i32,
            A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => SHARED_PER_SM as i32,
            A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK => SHARED_RESERVED as i32,
            A::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY => 64 << 10,
            A::CU_DEVICE_ATTRIBUTE_WARP_SIZE => WARP_SIZE as i32,
            A::CU_DEVICE_ATTRIBUTE_MAX_PITCH => i32::MAX,
            A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK
            | A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR => 65536,
            A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE => 1_000_000,
            A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE => 1_000_000,
            A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH => 64,
            A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE => 8 << 20,
            A::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT => 512,
            A::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT => 32,
            A::CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT => 512,
            A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => self.multiprocessors() as i32,
            A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR => THREADS_PER_SM as i32,
            A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR => BLOCKS_PER_SM as i32,
            A::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT => 1,
            A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => Self::CAPABILITY.0 as i32,
            A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => Self::CAPABILITY.1 as i32,
            A::CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO => 2,
            A::CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE => 128 << 20,
            A::CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT => 4,
            A::CU_DEVICE_ATTRIBUTE_GPU_OVERLAP
            | A::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY
            | A::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS
            | A::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING
            | A::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED
            | A::CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED
            | A::CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED
            | A::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY
            | A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
            | A::CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST
            | A::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED
            | A::CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED
            | A::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
            | A::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
            | A::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR
            | A::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1
            | A::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1
            | A::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1
            | A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH
            | A::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED
            | A::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED
            | A::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
            | A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
            | A::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH
            | A::CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS => 1,
            A::CU_DEVICE_ATTRIBUTE_NUMA_ID | A::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID => -1,
            A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS
            | A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES => {
                i32::from(self.state.memory.admits_host())
            }
            texture if is_texture_limit(texture) => 16384,
            // The rest are features that the device has not, and ids that are 0.
            _ => 0,
        })
    }
}

/// Whether an attribute is a largest extent of textures or surfaces.
fn is_texture_limit(attribute: Attribute) -> bool {
    matches!(attribute.0, 21..=29 | 42 | 43 | 45..=49 | 52..=74 | 77)
}
