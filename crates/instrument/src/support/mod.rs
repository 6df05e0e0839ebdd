//! The device functions that checks call, as PTX: look up the extent of a
//! pointer, append a record to the ring; and the device heap, for modules that
//! allocate. All are local to the file, so that any number of instrumented
//! files can be linked together.
//!
//! All addresses are from `model::layout`; this module has no address of its
//! own.

mod dispatch;
mod record;

use crate::protocol::{APPEND, LOOKUP, TEXT};
use crate::shadow;
use analysis::prints;
pub(crate) use dispatch::{Dispatch, prototype};
use model::layout as l;
use model::layout::shadow::Encoding;
pub(crate) use record::{RecordCode, Scratch, Values};

/// Bytes that the system keeps at the start of each block's shared memory
/// and that `%total_smem_size` does not count (1 KiB from sm_80 on).
pub(crate) const RESERVED_SHARED: u32 = 1024;

/// Bytes of the window of shared memory in which one block of a cluster lies:
/// addresses that `mapa` makes have the block's rank above them.
const BLOCK_WINDOW: u64 = 1 << 24;

/// Finds a block of the device heap.
const BLOCK: &str = include_str!("../device/block.ptx");
/// The device heap.
const HEAP: &str = include_str!("../device/heap.ptx");

/// The tag of a module in device records: FNV-1a, 64 bits. Small numbers are
/// not used as tags.
pub(crate) fn tag_of(source: &str) -> u64 {
    let hash = source
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    hash.max(1 << 8)
}

/// All functions, for a module of this version and target.
pub(crate) fn functions(
    module: &ptx::Module<'_>,
    tag: u64,
    heap: bool,
    shadow: Option<Encoding>,
) -> String {
    let (lookup, append) = (lookup(module), append(module, tag));
    let heap = if heap { HEAP } else { "" };
    let text = if prints(module) {
        text()
    } else {
        String::new()
    };
    let blocks = shadow.map_or_else(String::new, shadow::function);
    format!("\n{BLOCK}{lookup}{append}{blocks}{text}{heap}")
}

/// Whether the module may use `isspacep.param`.
fn has_isspacep_param(module: &ptx::Module<'_>) -> bool {
    module.version >= (7, 7) && module.architecture() >= 70
}

fn has_clusters(module: &ptx::Module<'_>) -> bool {
    module.version >= (7, 8) && module.architecture() >= 90
}

/// Tests whether a pointer is in a window that has no bounds.
fn window_tests(module: &ptx::Module<'_>) -> String {
    let mut windows = vec!["local", "const"];
    if has_isspacep_param(module) {
        windows.push("param");
    }
    if has_clusters(module) {
        windows.push("shared::cluster");
    }
    // The grid's workspace for cooperative launches is the driver's own
    // memory; %envreg1 and 2 hold its address (cooperative_groups.h).
    let workspace = if module.source.contains("%envreg") {
        "\tmov.b32 %__rf_w, %envreg1;\n\tcvt.u64.u32 %__rf_a, %__rf_w;\n\tshl.b64 %__rf_a, %__rf_a, 32;\n\t\
         mov.b32 %__rf_w, %envreg2;\n\tcvt.u64.u32 %__rf_o, %__rf_w;\n\tor.b64 %__rf_a, %__rf_a, %__rf_o;\n\t\
         sub.s64 %__rf_o, %__rf_p, %__rf_a;\n\tsetp.lt.u64 %__rf_q, %__rf_o, 65536;\n\t\
         setp.ne.and.s64 %__rf_q, %__rf_a, 0, %__rf_q;\n\t@%__rf_q bra $__rf_window;\n"
    } else {
        ""
    };
    let windows: String = windows
        .iter()
        .map(|space| {
            format!("\tisspacep.{space} %__rf_q, %__rf_p;\n\t@%__rf_q bra $__rf_window;\n")
        })
        .collect();
    windows + workspace
}

fn lookup(module: &ptx::Module<'_>) -> String {
    let windows = window_tests(module);
    // A block's own memory has a second address: by its rank in the cluster.
    let by_rank = match has_clusters(module) {
        true => format!(
            "\tsub.s64 %__rf_o, %__rf_p, %__rf_b;\n\tsetp.ge.u64 %__rf_q, %__rf_o, {BLOCK_WINDOW};\n\
             \t@%__rf_q bra $__rf_window;\n"
        ),
        false => String::new(),
    };
    format!(
        "
// Bounds of the allocation that a pointer points into: base and size.
.func (.param .align 8 .b8 __ringfence_bounds[16]) {LOOKUP} (.param .b64 __ringfence_pointer)
{{
	.reg .pred %__rf_q;
	.reg .b32 %__rf_w;
	.reg .b64 %__rf_p, %__rf_a, %__rf_b, %__rf_s, %__rf_o;
	ld.param.b64 %__rf_p, [__ringfence_pointer];
	shr.u64 %__rf_a, %__rf_p, {region_shift};
	setp.ge.u64 %__rf_q, %__rf_a, {region_count};
	@%__rf_q bra $__rf_nothing;
	shl.b64 %__rf_a, %__rf_a, 3;
	add.s64 %__rf_a, %__rf_a, {region_table};
	ld.global.b64 %__rf_a, [%__rf_a];
	setp.eq.s64 %__rf_q, %__rf_a, 0;
	@%__rf_q bra $__rf_nothing;
	setp.lt.s64 %__rf_q, %__rf_a, 0;
	@%__rf_q bra $__rf_extent;
	shr.u64 %__rf_o, %__rf_p, {granule_shift};
	and.b64 %__rf_o, %__rf_o, {leaf_mask};
	shl.b64 %__rf_o, %__rf_o, 2;
	add.s64 %__rf_a, %__rf_a, %__rf_o;
	ld.global.b32 %__rf_w, [%__rf_a];
	setp.eq.s32 %__rf_q, %__rf_w, 0;
	@%__rf_q bra $__rf_nothing;
	cvt.u64.u32 %__rf_a, %__rf_w;
$__rf_extent:
	and.b64 %__rf_a, %__rf_a, 4294967295;
	shl.b64 %__rf_a, %__rf_a, {entry_shift};
	add.s64 %__rf_a, %__rf_a, {extent_table};
	ld.global.v2.b64 {{%__rf_b, %__rf_s}}, [%__rf_a];
	sub.s64 %__rf_o, %__rf_p, %__rf_b;
	setp.gt.u64 %__rf_q, %__rf_o, %__rf_s;
	@%__rf_q bra $__rf_nothing;
	st.param.b64 [__ringfence_bounds], %__rf_b;
	st.param.b64 [__ringfence_bounds+8], %__rf_s;
	ret;
$__rf_nothing:
	isspacep.shared %__rf_q, %__rf_p;
	@%__rf_q bra $__rf_block;
{windows}	sub.s64 %__rf_o, %__rf_p, {heap_base};
	setp.lt.u64 %__rf_q, %__rf_o, {heap_reserved};
	@!%__rf_q bra $__rf_unknown;
	{{
	.param .b64 __ringfence_0;
	.param .align 8 .b8 __ringfence_1[16];
	st.param.b64 [__ringfence_0], %__rf_p;
	call (__ringfence_1), __ringfence_block, (__ringfence_0);
	ld.param.b64 %__rf_b, [__ringfence_1];
	ld.param.b64 %__rf_s, [__ringfence_1+8];
	}}
	st.param.b64 [__ringfence_bounds], %__rf_b;
	st.param.b64 [__ringfence_bounds+8], %__rf_s;
	ret;
$__rf_unknown:
	mov.b64 %__rf_a, {miss_size};
	ld.global.b64 %__rf_s, [%__rf_a];
	st.param.b64 [__ringfence_bounds], %__rf_p;
	st.param.b64 [__ringfence_bounds+8], %__rf_s;
	ret;
$__rf_block:
	mov.b64 %__rf_b, 0;
	cvta.shared.u64 %__rf_b, %__rf_b;
{by_rank}	mov.u32 %__rf_w, %total_smem_size;
	add.s32 %__rf_w, %__rf_w, {reserved};
	cvt.u64.u32 %__rf_s, %__rf_w;
	st.param.b64 [__ringfence_bounds], %__rf_b;
	st.param.b64 [__ringfence_bounds+8], %__rf_s;
	ret;
$__rf_window:
	mov.b64 %__rf_b, 0;
	mov.b64 %__rf_s, {unbounded};
	st.param.b64 [__ringfence_bounds], %__rf_b;
	st.param.b64 [__ringfence_bounds+8], %__rf_s;
	ret;
}}
",
        region_shift = l::REGION_SHIFT,
        region_count = l::REGION_COUNT,
        region_table = l::REGION_TABLE,
        granule_shift = l::GRANULE_SHIFT,
        leaf_mask = l::LEAF_ENTRIES - 1,
        entry_shift = size_of::<l::ExtentEntry>().trailing_zeros(),
        extent_table = l::EXTENT_TABLE,
        heap_base = l::heap::HEAP_BASE,
        heap_reserved = l::heap::HEAP_RESERVED,
        miss_size = l::MISS_SIZE,
        unbounded = l::UNBOUNDED,
        reserved = RESERVED_SHARED,
    )
}

/// A function with the code that writes a record.
fn append(module: &ptx::Module<'_>, tag: u64) -> String {
    let scratch = Scratch {
        wide: [&"%__rf_n", &"%__rf_t", &"%__rf_v"],
        narrow: [&"%__rf_x", &"%__rf_y"],
        predicates: [&"%__rf_q", &"%__rf_r"],
    };
    let values = Values {
        site: &"%__rf_w",
        address: &"%__rf_a",
        bounds: Some((&"%__rf_b", &"%__rf_s")),
        launch: Some("__ringfence_number"),
        ends: false,
    };
    let mut code = String::new();
    RecordCode::of(module, tag).write(&scratch, &values, &"$__rf_full", &mut code);
    format!(
        "
// One record of a violated check.
.func {APPEND} (.param .b32 __ringfence_site, .param .b64 __ringfence_address, .param .b64 __ringfence_base, .param .b64 __ringfence_size, .param .b64 __ringfence_number)
{{
	.reg .pred %__rf_q, %__rf_r;
	.reg .b32 %__rf_w, %__rf_x, %__rf_y;
	.reg .b64 %__rf_n, %__rf_t, %__rf_v, %__rf_a, %__rf_b, %__rf_s;
	ld.param.b32 %__rf_w, [__ringfence_site];
	ld.param.b64 %__rf_a, [__ringfence_address];
	ld.param.b64 %__rf_b, [__ringfence_base];
	ld.param.b64 %__rf_s, [__ringfence_size];
	{code}
$__rf_full:
	ret;
}}
",
    )
}

/// Reads a string as printing it does, but within its bounds only. A null
/// pointer to a string ends the kernel with an illegal address (seen on an
/// H200), so it is no exception.
fn text() -> String {
    format!(
        "
// The first byte outside its bounds that printing a string reads; -1 if none.
.func (.param .b64 __ringfence_outside) {TEXT} (.param .b64 __ringfence_pointer, .param .b64 __ringfence_base, .param .b64 __ringfence_size, .param .b64 __ringfence_most)
{{
	.reg .pred %__rf_q;
	.reg .b32 %__rf_w;
	.reg .b64 %__rf_p, %__rf_s, %__rf_n, %__rf_o;
	ld.param.b64 %__rf_p, [__ringfence_pointer];
	ld.param.b64 %__rf_n, [__ringfence_most];
	setp.eq.s64 %__rf_q, %__rf_n, 0;
	@%__rf_q bra $__rf_ends;
	setp.eq.s64 %__rf_q, %__rf_p, 0;
	@%__rf_q bra $__rf_leaves;
	ld.param.b64 %__rf_s, [__ringfence_size];
	setp.ge.u64 %__rf_q, %__rf_s, {unbounded};
	@%__rf_q bra $__rf_ends;
	ld.param.b64 %__rf_o, [__ringfence_base];
	sub.s64 %__rf_o, %__rf_p, %__rf_o;
	min.u64 %__rf_o, %__rf_o, %__rf_s;
	sub.s64 %__rf_s, %__rf_s, %__rf_o;
$__rf_next:
	setp.eq.s64 %__rf_q, %__rf_n, 0;
	@%__rf_q bra $__rf_ends;
	setp.eq.s64 %__rf_q, %__rf_s, 0;
	@%__rf_q bra $__rf_leaves;
	ld.u8 %__rf_w, [%__rf_p];
	setp.eq.s32 %__rf_q, %__rf_w, 0;
	@%__rf_q bra $__rf_ends;
	add.s64 %__rf_p, %__rf_p, 1;
	sub.s64 %__rf_n, %__rf_n, 1;
	sub.s64 %__rf_s, %__rf_s, 1;
	bra $__rf_next;
$__rf_ends:
	mov.b64 %__rf_p, -1;
$__rf_leaves:
	st.param.b64 [__ringfence_outside], %__rf_p;
	ret;
}}
",
        unbounded = l::UNBOUNDED,
    )
}
