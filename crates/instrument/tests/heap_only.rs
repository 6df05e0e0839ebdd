//! Modules in which only calls of `malloc` and `free` are changed, so that they
//! go to the device heap: `--protect watch` alone does this.

use crate::common;

use instrument::{Instrumented, Options, instrument, verify_heap_calls};
use model::Checked;

const PROGRAM: &str = r"
__device__ __noinline__ int *make(int n) {
    int *p = (int *)malloc(n * sizeof(int));
    for (int i = 0; p && i < n; i++) p[i] = i;
    return p;
}
__global__ void work(int *out, int rounds) {
    __shared__ int sums[64];
    int sum = 0;
    for (int round = 0; round < rounds; round++) {
        int *p = make(round + 8);
        if (!p) continue;
        sum += p[round];
        free(p);
    }
    sums[threadIdx.x & 63] = sum;
    __syncthreads();
    out[threadIdx.x] = sums[threadIdx.x + 1 & 63];
}
__global__ void other(float *out) { out[threadIdx.x] *= 2; }
";

fn made(source: &str) -> Instrumented {
    let options = Options {
        checked: Checked::NONE,
        ..Options::default()
    };
    instrument(source, &options).expect("an instrumented module")
}

fn compiled(architecture: u32) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("a.cu"), folder.path().join("a.ptx"));
    std::fs::write(&input, PROGRAM).expect("a written file");
    let done = std::process::Command::new(common::tool("nvcc"))
        .args(["-ptx", "-arch", &format!("compute_{architecture}"), "-o"])
        .args([&output, &input])
        .output()
        .expect("nvcc");
    assert!(done.status.success(), "{done:?}");
    std::fs::read_to_string(&output).expect("PTX")
}

#[test]
fn only_calls_of_malloc_and_free_change() {
    for architecture in [75, 90, 120] {
        let source = compiled(architecture);
        let made = made(&source);
        assert!(made.uses_device_heap);
        verify_heap_calls(&source, &made.text).expect("only redirected calls");
        common::assemble(&made.text).expect("ptxas takes it");
        let checks = made.sites.iter().filter(|site| site.width != 0);
        assert_eq!(checks.count(), 0, "calls are the only sites");
    }
}

#[test]
fn checks_and_other_changes_are_seen() {
    let source = compiled(90);
    let with_checks = instrument(&source, &Options::default()).expect("an instrumented module");
    assert!(verify_heap_calls(&source, &with_checks.text).is_err());
    let made = made(&source).text;
    for (from, to) in [
        ("__ringfence_malloc, \n", "__ringfence_free, \n"),
        ("[__ringfence_launch];", "[__ringfence_launch+8];\n\ttrap;"),
        ("bar.sync \t0;", "bar.sync \t1;"),
        (
            "st.param.b64 [__ringfence_l1]",
            "st.global.b64 [__ringfence_l1]",
        ),
    ] {
        assert!(made.contains(from), "`{from}` is not in the text");
        let changed = made.replace(from, to);
        assert!(verify_heap_calls(&source, &changed).is_err(), "`{from}`");
    }
}

#[test]
fn a_module_that_does_not_allocate_stays_as_it_is() {
    let source = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	st.global.u64 [%rd1+8], %rd1;
	ret;
}
";
    let made = made(source);
    assert!(!made.uses_device_heap);
    assert_eq!(made.text, source);
}
