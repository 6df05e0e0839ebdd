//! The device as a program sees it, without the C functions.

mod capture;
mod contained;
mod faults;
mod memory;
mod nodes;
mod objects;
mod streams;
mod support;
mod textures;

use super::{Copy, Device, Host, Launch, Options, Side};
use model::{AllocationKind, DeviceAddress};
use parking_lot::Mutex;
use std::sync::Arc;

/// A host whose ordinary memory is out of bounds: every copy of these tests
/// is between memory of the device.
#[derive(Default)]
pub struct TestHost {
    pub printed: Mutex<Vec<u8>>,
    pub reports: Mutex<Vec<String>>,
}

impl Host for TestHost {
    fn copy(&self, to: u64, from: u64, size: usize) {
        *self.reports.lock() = vec![format!("copy of {size} bytes from {from:#x} to {to:#x}")];
    }
    fn read(&self, _from: u64, bytes: &mut [u8]) {
        bytes.fill(0xcd);
    }
    fn print(&self, bytes: &[u8]) {
        self.printed.lock().extend_from_slice(bytes);
    }
    fn print_error(&self, bytes: &[u8]) {
        self.reports
            .lock()
            .push(String::from_utf8_lossy(bytes).into_owned());
    }
    fn report(&self, message: &str) {
        self.reports.lock().push(message.to_owned());
    }
}

/// Kernels that the tests launch.
pub const KERNELS: &str = r#"
.version 7.8
.target sm_90
.address_size 64
.global .align 4 .u32 counter = 5;
.const .align 4 .u32 table[2] = {7, 9};

// Adds `n` to each of the launch's words.
.visible .entry add(.param .u64 p, .param .u32 n)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mul.wide.u32 %rd2, %r5, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r6, [%rd3];
    add.u32 %r7, %r6, %r1;
    st.global.u32 [%rd3], %r7;
    ret;
}

// Waits until the word is not zero.
.visible .entry spin(.param .u64 p)
{
    .reg .pred %q;
    .reg .b32 %r1;
    .reg .b64 %rd1;
    ld.param.u64 %rd1, [p];
again:
    ld.volatile.global.u32 %r1, [%rd1];
    setp.eq.u32 %q, %r1, 0;
    @%q bra again;
    ret;
}

.visible .entry stop() { trap; }

// Writes a word for each block; blocks of odd numbers wait for 64 threads before.
.visible .entry meet(.param .u64 p)
{
    .reg .pred %q;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %ctaid.x;
    and.b32 %r2, %r1, 1;
    setp.ne.u32 %q, %r2, 0;
    @%q bar.sync 1, 64;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    mov.u32 %r3, 1;
    st.global.u32 [%rd3], %r3;
    ret;
}

// Static shared memory of 16 KiB.
.visible .entry shared(.param .u64 p)
{
    .shared .align 4 .b8 block[16384];
    .reg .b32 %r1;
    .reg .b64 %rd1;
    ld.param.u64 %rd1, [p];
    st.shared.u32 [block], 3;
    ld.shared.u32 %r1, [block];
    st.global.u32 [%rd1], %r1;
    ret;
}
"#;

/// A device with a current context and the kernels.
pub struct Rig {
    pub device: Device,
    pub host: Arc<TestHost>,
    pub module: u64,
}

impl Rig {
    pub fn new() -> Rig {
        let host = Arc::new(TestHost::default());
        let device = Device::new(
            Options {
                threads: 2,
                pageable: false,
                seed: 0,
            },
            host.clone(),
        )
        .expect("a device");
        device.init();
        let context = device.primary_retain().expect("a context");
        device.context_set(context).expect("current");
        let module = device.load_module(&[KERNELS]).expect("the kernels load");
        Rig {
            device,
            host,
            module,
        }
    }

    /// Zeroed words.
    pub fn words(&self, count: u64) -> u64 {
        let base = self
            .device
            .allocate(4 * count, AllocationKind::Device, 0)
            .expect("memory")
            .0;
        self.device
            .state
            .memory
            .fill(base, &[0; 4], count)
            .expect("mapped");
        base
    }

    pub fn word(&self, address: u64) -> u32 {
        let mut bytes = [0; 4];
        self.device
            .state
            .memory
            .read(address, &mut bytes)
            .expect("mapped");
        u32::from_le_bytes(bytes)
    }

    pub fn set_word(&self, address: u64, value: u32) {
        self.device
            .state
            .memory
            .write(address, &value.to_le_bytes())
            .expect("mapped");
    }

    /// A launch of one block.
    pub fn launch(&self, name: &str, threads: u32, parameters: &[u8]) -> Launch {
        Launch {
            function: self.device.function(self.module, name).expect("an entry"),
            grid: [1; 3],
            block: [threads, 1, 1],
            parameters: parameters.to_vec(),
            ..Launch::default()
        }
    }

    pub fn add(&self, address: u64, n: u32) -> Launch {
        let mut parameters = address.to_le_bytes().to_vec();
        parameters.extend(n.to_le_bytes());
        self.launch("add", 32, &parameters)
    }

    pub fn spin(&self, address: u64) -> Launch {
        self.launch("spin", 1, &address.to_le_bytes())
    }

    pub fn free(&self, address: u64) -> super::Result<()> {
        self.device.free(DeviceAddress(address))
    }
}

pub fn linear(to: u64, from: u64, size: u64) -> Copy {
    Copy::linear(Side::linear(to, None), Side::linear(from, None), size)
}
