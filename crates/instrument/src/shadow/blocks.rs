//! The function that checks accesses to any number of blocks.

use crate::protocol::{BLOCKS, LOOKUP};
use model::layout::heap::{HEAP_BASE, HEAP_RESERVED};
use model::layout::placed::PLACED_BASE;
use model::layout::shadow::{Encoding, SHADOW_BASE, SHADOW_WINDOW, TESTED_BITS, UNIT_SHIFT};

/// The function, as PTX.
pub(crate) fn function(encoding: Encoding) -> String {
    let shift = encoding.shift();
    // From a value to the number of addressable bytes.
    let (bytes, single) = match encoding {
        Encoding::Block8 | Encoding::Block128 => (String::new(), String::new()),
        Encoding::Block256 => (
            "\tsetp.ne.u32 %__rf_q, %__rf_w, 0;\n\t@%__rf_q add.u32 %__rf_w, %__rf_w, 1;\n"
                .to_owned(),
            format!(
                "\tsetp.ne.u32 %__rf_q, %__rf_w, 0;\n\t@%__rf_q bra $__rf_bad;\n\
                 \tsetp.ne.s64 %__rf_q, %__rf_o, 1;\n\t@%__rf_q bra $__rf_bad;\n\
                 \t{{\n\t.param .b64 __ringfence_0;\n\t.param .align 8 .b8 __ringfence_1[16];\n\
                 \tst.param.b64 [__ringfence_0], %__rf_p;\n\
                 \tcall (__ringfence_1), {LOOKUP}, (__ringfence_0);\n\
                 \tld.param.b64 %__rf_o, [__ringfence_1];\n\
                 \tld.param.b64 %__rf_s, [__ringfence_1+8];\n\t}}\n\
                 \tsub.s64 %__rf_o, %__rf_p, %__rf_o;\n\
                 \tsetp.lt.u64 %__rf_q, %__rf_o, %__rf_s;\n\t@%__rf_q bra $__rf_good;\n"
            ),
        ),
    };
    format!(
        "
// Whether some byte of an access is not addressable.
.func (.param .b32 __ringfence_outside) {BLOCKS} (.param .b64 __ringfence_pointer, .param .b64 __ringfence_size)
{{
	.reg .pred %__rf_q;
	.reg .b32 %__rf_w, %__rf_v, %__rf_x, %__rf_y, %__rf_z, %__rf_n;
	.reg .b64 %__rf_p, %__rf_e, %__rf_a, %__rf_o, %__rf_s;
	ld.param.b64 %__rf_p, [__ringfence_pointer];
	ld.param.b64 %__rf_s, [__ringfence_size];
	and.b64 %__rf_p, %__rf_p, {tested};
	setp.eq.s64 %__rf_q, %__rf_s, 0;
	@%__rf_q bra $__rf_fine;
	add.s64 %__rf_e, %__rf_p, %__rf_s;
	setp.lt.u64 %__rf_q, %__rf_e, %__rf_p;
	@%__rf_q bra $__rf_bad;
	mov.b64 %__rf_a, {SHADOW_WINDOW};
	ld.global.v4.b32 {{%__rf_x, %__rf_y, %__rf_z, %__rf_n}}, [%__rf_a];
	sub.s64 %__rf_o, %__rf_p, {HEAP_BASE};
	setp.ge.u64 %__rf_q, %__rf_o, {HEAP_RESERVED};
	@%__rf_q bra $__rf_next;
	{{
	.param .b64 __ringfence_0;
	.param .align 8 .b8 __ringfence_1[16];
	st.param.b64 [__ringfence_0], %__rf_p;
	call (__ringfence_1), {LOOKUP}, (__ringfence_0);
	ld.param.b64 %__rf_o, [__ringfence_1];
	ld.param.b64 %__rf_a, [__ringfence_1+8];
	}}
	sub.s64 %__rf_o, %__rf_p, %__rf_o;
	min.u64 %__rf_o, %__rf_o, %__rf_a;
	sub.s64 %__rf_a, %__rf_a, %__rf_o;
	setp.gt.u64 %__rf_q, %__rf_s, %__rf_a;
	@%__rf_q bra $__rf_bad;
	bra $__rf_fine;
$__rf_next:
	shr.u64 %__rf_a, %__rf_p, {UNIT_SHIFT};
	cvt.u32.u64 %__rf_w, %__rf_a;
	sub.s32 %__rf_v, %__rf_w, {placed};
	sub.s32 %__rf_w, %__rf_w, %__rf_x;
	setp.lt.u32 %__rf_q, %__rf_w, %__rf_y;
	setp.lt.or.u32 %__rf_q, %__rf_v, %__rf_z, %__rf_q;
	@%__rf_q bra $__rf_covered;
	add.s64 %__rf_a, %__rf_a, 1;
	shl.b64 %__rf_a, %__rf_a, {UNIT_SHIFT};
	bra $__rf_good;
$__rf_covered:
	shr.u64 %__rf_a, %__rf_p, {shift};
	add.s64 %__rf_a, %__rf_a, {SHADOW_BASE};
	ld.global.u8 %__rf_w, [%__rf_a];
	and.b64 %__rf_o, %__rf_p, {mask};
	add.s64 %__rf_a, %__rf_o, {block};
	min.u64 %__rf_s, %__rf_e, %__rf_a;
	sub.s64 %__rf_o, %__rf_s, %__rf_o;
{bytes}	cvt.u64.u32 %__rf_s, %__rf_w;
	setp.le.u64 %__rf_q, %__rf_o, %__rf_s;
	@%__rf_q bra $__rf_good;
{single}$__rf_bad:
	mov.b32 %__rf_w, 1;
	st.param.b32 [__ringfence_outside], %__rf_w;
	ret;
$__rf_good:
	mov.b64 %__rf_p, %__rf_a;
	setp.lt.u64 %__rf_q, %__rf_p, %__rf_e;
	@%__rf_q bra $__rf_next;
$__rf_fine:
	mov.b32 %__rf_w, 0;
	st.param.b32 [__ringfence_outside], %__rf_w;
	ret;
}}
",
        mask = !(encoding.block() - 1) as i64,
        block = encoding.block(),
        placed = PLACED_BASE >> UNIT_SHIFT,
        tested = (1u64 << TESTED_BITS) - 1,
    )
}
