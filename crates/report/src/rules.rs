//! What each rule means, for `ringfence explain`.

use model::Rule;

/// The explanation of one rule.
#[derive(Clone, Copy, Debug)]
pub struct RuleHelp {
    /// Which rule.
    pub rule: Rule,
    /// One line.
    pub title: &'static str,
    /// What it means, what usually causes it, what to do.
    pub text: &'static str,
}

const RULES: &[RuleHelp] = &[
    RuleHelp {
        rule: Rule::GlobalOutOfBoundsRead,
        title: "a read outside the allocation that the pointer came from",
        text: "A kernel read bytes of global memory that do not belong to the buffer which the pointer was\n\
               derived from. The buffer is the one that was passed to the kernel, loaded from memory or named\n\
               as a variable; it does not matter whether the bytes read belong to another live buffer.\n\
               \n\
               Usual causes: a missing `if (i < n)`, a grid rounded up to whole blocks, `<=` for `<`, a halo\n\
               read without padding, a vector load (float4) on a length that is not a multiple of four.\n\
               \n\
               In this run the read was given zero instead of the memory's content.",
    },
    RuleHelp {
        rule: Rule::GlobalOutOfBoundsWrite,
        title: "a write outside the allocation that the pointer came from",
        text: "A kernel wrote bytes of global memory that do not belong to the buffer which the pointer was\n\
               derived from. Natively this corrupts whatever lies there, often silently.\n\
               \n\
               Usual causes: a missing `if (i < n)`, a grid rounded up to whole blocks, `<=` for `<`, an\n\
               output buffer that is smaller than the input, an index computed in too narrow a type.\n\
               \n\
               In this run the write went to a sink and changed no memory of the program.",
    },
    RuleHelp {
        rule: Rule::GlobalOutOfBoundsAtomic,
        title: "an atomic outside the allocation that the pointer came from",
        text: "A kernel did an atomic operation on global memory that does not belong to the buffer which the\n\
               pointer was derived from.\n\
               \n\
               Usual causes: a histogram bin that the data exceeds, a counter beside its array, a missing\n\
               bounds check on an index read from memory.\n\
               \n\
               In this run the operation went to a sink; the value that it returned is meaningless.",
    },
    RuleHelp {
        rule: Rule::SharedOutOfBoundsRead,
        title: "a read outside the shared array that the address came from",
        text: "A kernel read bytes of shared memory that do not belong to the `__shared__` array (or declared part of\n\
               the dynamic shared memory) that the address was derived from. It does not matter whether the bytes\n\
               belong to another array of the same block.\n\
               \n\
               Usual causes: a tile index that includes the halo, `<=` for `<`, a warp index of a block larger than\n\
               the array was sized for, too few bytes of dynamic shared memory at the launch.\n\
               \n\
               In this run the read was given zero instead of the memory's content.",
    },
    RuleHelp {
        rule: Rule::SharedOutOfBoundsWrite,
        title: "a write outside the shared array that the address came from",
        text: "A kernel wrote bytes of shared memory that do not belong to the `__shared__` array (or declared part of\n\
               the dynamic shared memory) that the address was derived from. Natively this corrupts another array of\n\
               the block, often silently.\n\
               \n\
               Usual causes: a tile index that includes the halo, `<=` for `<`, a block larger than the array was\n\
               sized for, too few bytes of dynamic shared memory at the launch.\n\
               \n\
               In this run the write changed no memory of the program.",
    },
    RuleHelp {
        rule: Rule::SharedOutOfBoundsAtomic,
        title: "an atomic outside the shared array that the address came from",
        text: "A kernel did an atomic operation on shared memory outside the array that the address was derived from.\n\
               \n\
               Usual causes: a histogram bin that the data exceeds, a counter beside its array.\n\
               \n\
               In this run the operation changed no memory of the program; the value that it returned is meaningless.",
    },
    RuleHelp {
        rule: Rule::LocalOutOfBoundsRead,
        title: "a read outside the local object that the address came from",
        text: "A thread read bytes of its local memory that do not belong to the variable or array that the address was\n\
               derived from: another object of the same function, another function's frame, or nothing.\n\
               \n\
               Usual causes: an index into a small per-thread array that depends on data, `<=` for `<`, a pointer to\n\
               one local variable used to reach the next.\n\
               \n\
               In this run the read was given zero instead of the memory's content.",
    },
    RuleHelp {
        rule: Rule::LocalOutOfBoundsWrite,
        title: "a write outside the local object that the address came from",
        text: "A thread wrote bytes of its local memory that do not belong to the variable or array that the address\n\
               was derived from. Natively this corrupts other variables of the thread, or its return address.\n\
               \n\
               Usual causes: an index into a small per-thread array that depends on data, `<=` for `<`, a pointer to\n\
               one local variable used to reach the next.\n\
               \n\
               In this run the write changed no memory of the program.",
    },
    RuleHelp {
        rule: Rule::LocalOutOfBoundsAtomic,
        title: "an atomic outside the local object that the address came from",
        text: "A thread did an atomic operation on local memory outside the variable that the address was derived from.\n\
               \n\
               Usual causes: a generic pointer to a local variable handed to code that counts in an array.\n\
               \n\
               In this run the operation changed no memory of the program; the value that it returned is meaningless.",
    },
    RuleHelp {
        rule: Rule::ConstantOutOfBoundsRead,
        title: "a read outside the `__constant__` variable that the address came from",
        text: "A kernel read constant memory outside the variable that the address was derived from.\n\
               \n\
               Usual causes: a table shorter than the range of its index, `<=` for `<`.\n\
               \n\
               In this run the read was given zero instead of the memory's content.",
    },
    RuleHelp {
        rule: Rule::ParameterOutOfBoundsRead,
        title: "a read outside the kernel parameter that the address came from",
        text: "A kernel read its parameter block outside the parameter that the address was derived from, usually an\n\
               array inside a struct passed by value.\n\
               \n\
               Usual causes: an index into that array which the loop or the data lets run past its end.\n\
               \n\
               In this run the read was given zero instead of the memory's content.",
    },
    RuleHelp {
        rule: Rule::IntraAllocationOutOfBoundsRead,
        title: "a read outside the part of an allocation that the address came from",
        text: "A kernel read bytes of the right allocation but outside the part of it that the address was derived\n\
               from: a field of a struct, a row of an array, a block of a memory pool, or a region that the program\n\
               declared (`ringfence.h`, NVTX).\n\
               \n\
               Usual causes: an index past the end of an array field, a pool block used past its size.\n\
               \n\
               In this run the read was given zero instead of the memory's content.",
    },
    RuleHelp {
        rule: Rule::IntraAllocationOutOfBoundsWrite,
        title: "a write outside the part of an allocation that the address came from",
        text: "A kernel wrote bytes of the right allocation but outside the part of it that the address was derived\n\
               from: a field of a struct, a row of an array, a block of a memory pool, or a region that the program\n\
               declared (`ringfence.h`, NVTX). Natively this corrupts the neighbouring field or block.\n\
               \n\
               Usual causes: an index past the end of an array field, a pool block used past its size.\n\
               \n\
               In this run the write changed no memory of the program.",
    },
    RuleHelp {
        rule: Rule::IntraAllocationOutOfBoundsAtomic,
        title: "an atomic outside the part of an allocation that the address came from",
        text: "A kernel did an atomic operation inside the right allocation but outside the field, row, pool block or\n\
               declared region that the address was derived from.\n\
               \n\
               Usual causes: an index past the end of an array field, a pool block used past its size.\n\
               \n\
               In this run the operation changed no memory of the program; the value that it returned is meaningless.",
    },
    RuleHelp {
        rule: Rule::MisalignedAccess,
        title: "an access at an address that is not aligned for it",
        text: "A kernel accessed bytes of the right allocation at an address that is no multiple of what the\n\
               instruction needs: the number of bytes accessed, for a vector (`float4`) all of them together, 16 for\n\
               bulk copies and rows of `ldmatrix`, 8 for barriers. Natively the kernel ends with error 716\n\
               (cudaErrorMisalignedAddress), and the context with it.\n\
               \n\
               Usual causes: a `char` buffer, or a packed struct in one, read as a larger type; a pointer to `float4`\n\
               into the middle of an array of `float`; offsets in bytes where elements were meant.\n\
               \n\
               In this run a read was given zero and a write changed no memory of the program. An access that is\n\
               also out of bounds is reported as that.",
    },
    RuleHelp {
        rule: Rule::InvalidPointer,
        title: "an access through a pointer that points into no allocation",
        text: "A kernel used a pointer that belongs to no live allocation: null, uninitialised, cut to 32 bits,\n\
               or the address of ordinary host memory that the\n\
               device was never given.\n\
               \n\
               Usual causes: passing a host pointer instead of the device one, an allocation whose error code\n\
               was not checked.\n\
               \n\
               Memory that the program gets through calls which Ringfence does not hook is asked of the\n\
               driver; if the driver knows no such allocation either, the pointer is reported.",
    },
    RuleHelp {
        rule: Rule::UseAfterFree,
        title: "an access to memory that was freed",
        text: "A kernel, or a copy by the host, used a pointer into memory that the program had freed. Freed memory is\n\
               not handed out again until the quarantine is full (`--quarantine-size`), so that the error is found\n\
               even where another allocation would have taken the place.\n\
               \n\
               Usual causes: a structure that keeps a pointer to a buffer freed elsewhere, a free that is not ordered\n\
               after the kernel that uses the buffer, a pool that gave the block to someone else.\n\
               \n\
               In this run reads were given zero and writes changed no memory of the program.",
    },
    RuleHelp {
        rule: Rule::UseAfterPoison,
        title: "an access to memory that the program has declared not to be accessed",
        text: "A kernel accessed bytes of a live buffer that the program had poisoned (`ringfence_poison`), or that its\n\
               pool had not handed out (`ringfence_pool_create`, an NVTX sub-allocator), under `--protect shadow`.\n\
               \n\
               Usual causes: a write past the end of one part into the padding behind it, a pool that took the memory\n\
               back while a structure still points to it, memory that is used before the pool hands it out.\n\
               \n\
               In this run reads were given zero and writes changed no memory of the program.",
    },
    RuleHelp {
        rule: Rule::UseAfterScope,
        title: "an access to a local object whose scope has ended",
        text: "A thread used the address of a local variable after the function that declares it had returned, or after\n\
               the block that declares it had ended.\n\
               \n\
               Usual causes: returning or storing the address of a local variable.\n\
               \n\
               In this run reads were given zero and writes changed no memory of the program.",
    },
    RuleHelp {
        rule: Rule::UseBeforeAllocation,
        title: "an access that is not ordered after the allocation",
        text: "A kernel or copy used memory from cudaMallocAsync in a stream that is not ordered after the allocation:\n\
               no event, stream wait or synchronization stands between them.\n\
               \n\
               Usual causes: allocating in one stream and launching in another without cudaStreamWaitEvent.",
    },
    RuleHelp {
        rule: Rule::StreamOrderRace,
        title: "an access that is not ordered before the free",
        text: "A kernel or copy used memory while cudaFreeAsync gave it back in another stream, with no event, stream\n\
               wait or synchronization between them.\n\
               \n\
               Usual causes: freeing in one stream what another stream still uses.",
    },
    RuleHelp {
        rule: Rule::DoubleFree,
        title: "memory freed a second time",
        text: "The program freed memory that it had freed before. The report names the allocation and the first free.\n\
               \n\
               Usual causes: two owners of one pointer, an error path that frees what the normal path frees too.\n\
               \n\
               The second free was not passed on.",
    },
    RuleHelp {
        rule: Rule::InvalidFree,
        title: "a free of something that is no allocation",
        text: "The program freed a pointer that no allocation starts at: a pointer into the middle of one, a pointer of\n\
               the other side (host or device), one from another call family (cudaFree of cudaMallocHost memory), or\n\
               one that was never allocated.\n\
               \n\
               Usual causes: pointer arithmetic on the only copy of a pointer, mixing cudaFree, cudaFreeHost and free.",
    },
    RuleHelp {
        rule: Rule::MemoryLeak,
        title: "memory that the program never freed",
        text: "At the end of the program, or when its context was destroyed, this allocation was still live.\n\
               The check runs with `--leak-check full`.\n\
               \n\
               Usual causes: an early return, a pointer overwritten by the next allocation.",
    },
    RuleHelp {
        rule: Rule::CopyOutOfBoundsRead,
        title: "a copy that reads outside an allocation",
        text: "A copy called by the host reads bytes outside the allocation that its source pointer belongs to. The\n\
               check is made before the copy runs.\n\
               \n\
               Usual causes: a count of elements where bytes are wanted or the reverse, a pitch or height of another\n\
               buffer, an offset added twice.\n\
               \n\
               What becomes of the call is decided by `--api-errors`.",
    },
    RuleHelp {
        rule: Rule::CopyOutOfBoundsWrite,
        title: "a copy or set that writes outside an allocation",
        text: "A copy or memset called by the host writes bytes outside the allocation that its destination pointer\n\
               belongs to. The check is made before it runs.\n\
               \n\
               Usual causes: a count of elements where bytes are wanted or the reverse, a pitch or height of another\n\
               buffer, an offset added twice.\n\
               \n\
               What becomes of the call is decided by `--api-errors`.",
    },
    RuleHelp {
        rule: Rule::CanaryOverwritten,
        title: "bytes beside a buffer that nothing may write were overwritten",
        text: "Every buffer is given a canary on either side: bytes of a known pattern. They were intact before the\n\
               kernel that is named, or the call, and are not after it. The report names the argument through which\n\
               the kernel could reach the buffer, how far from the buffer the nearest overwritten byte lies, and what\n\
               was written. Natively this corrupts whatever lies there, often silently.\n\
               \n\
               Usual causes: a missing `if (i < n)`, a global size rounded up to whole work-groups, a buffer allocated\n\
               by the number of elements instead of bytes, `<=` for `<`, a halo written without padding.\n\
               \n\
               A read outside a buffer, and a write that goes farther than the canary (`--canary-size`), leaves no\n\
               trace here. The canary was repaired, so that each kernel answers for itself.",
    },
    RuleHelp {
        rule: Rule::KernelFailed,
        title: "a kernel that the device stopped",
        text: "The device stopped a kernel: it accessed an illegal address, failed an assertion, executed a trap,\n\
               overflowed its stack or ran into the launch timeout. From then on every call of the driver in that\n\
               context returns the error, and what the program computes there is lost. Ringfence changes none of\n\
               these answers. The report names the error, the kernels that could have been running when it was first\n\
               returned, and, on the CPU device, the thread and the instruction.\n\
               \n\
               Usual causes: an access that Ringfence does not check (in code without PTX, in inline assembly, in a\n\
               launch that was not instrumented), a failed `assert`, `__trap()`, unbounded recursion.\n\
               \n\
               Under --protect pages, each buffer ends at an unmapped page, and freed addresses are not used again: the\n\
               cause is an access beyond a buffer, or after its free. Where the device reports the address, the report\n\
               names the buffer, the distance, and where it was allocated and freed.\n\
               \n\
               On a GPU the driver does not say which kernel failed: with CUDA_LAUNCH_BLOCKING=1 the report names one.\n\
               Memory that could not be freed after the failure is counted, and not reported as leaks.",
    },
];

/// All rules, in the order of [`Rule`].
pub fn rules() -> &'static [RuleHelp] {
    RULES
}

/// The explanation of a rule by its id.
pub fn rule_help(id: &str) -> Option<&'static RuleHelp> {
    RULES.iter().find(|help| help.rule.id() == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_explained_under_its_id() {
        assert_eq!(RULES.len(), Rule::ALL.len());
        for (&rule, listed) in Rule::ALL.iter().zip(RULES) {
            assert_eq!(listed.rule, rule);
            let help = rule_help(rule.id()).expect("explained");
            assert_eq!(help.rule, rule);
            assert!(!help.text.is_empty());
        }
        assert!(rule_help("no-such-rule").is_none());
    }
}
