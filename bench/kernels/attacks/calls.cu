// Calls and jumps that lead anywhere, and recursion without end.
#include "attack.cuh"


using Called = uint32_t (*)(uint32_t);

__device__ __noinline__ uint32_t attack_twice(uint32_t value) { return value * 2; }
__device__ __noinline__ uint32_t attack_thrice(uint32_t value) { return value * 3; }
__device__ Called attack_table[] = {attack_twice, attack_thrice};

__global__ void attack_pointer(uint64_t target, uint32_t *own) {
    Called called = target < 2 ? attack_table[target] : (Called)target;
    own[threadIdx.x] = called(threadIdx.x);
}

static void pointer(Target &t, unsigned i) {
    const uint64_t targets[] = {2, 8, 0x100, 0x10000, 0xdeadbeef, 0x7fffffffffff, ~0ull, 3};
    uint64_t target = i < 8 ? targets[i] : random_number(i);
    attack_pointer<<<1, 32, 0, t.stream>>>(target, t.own);
}

static const char JUMP[] = R"(
.version 8.0
.target sm_75
.address_size 64
.visible .entry attack_jump(.param .u32 index, .param .u64 own)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u32 %r1, [index];
    ld.param.u64 %rd1, [own];
table: .branchtargets FIRST, SECOND, THIRD;
    brx.idx %r1, table;
FIRST:
    mov.u32 %r2, 1;
    bra DONE;
SECOND:
    mov.u32 %r2, 2;
    bra DONE;
THIRD:
    mov.u32 %r2, 3;
DONE:
    st.global.u32 [%rd1], %r2;
    ret;
}
)";

static const char RECURSION[] = R"(
.version 8.0
.target sm_75
.address_size 64
.func (.param .b32 result) deeper(.param .b32 value)
{
    .reg .b32 %r<4>;
    .reg .pred %p1;
    ld.param.u32 %r1, [value];
    mov.u32 %r2, 7;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra DONE;
    add.u32 %r2, %r1, -1;
    {
    .param .b32 argument;
    .param .b32 answer;
    st.param.b32 [argument], %r2;
    call (answer), deeper, (argument);
    ld.param.b32 %r2, [answer];
    }
    add.u32 %r2, %r2, %r1;
DONE:
    st.param.b32 [result], %r2;
    ret;
}
.visible .entry attack_recursion(.param .u32 depth, .param .u64 own)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u32 %r1, [depth];
    ld.param.u64 %rd1, [own];
    {
    .param .b32 argument;
    .param .b32 answer;
    st.param.b32 [argument], %r1;
    call (answer), deeper, (argument);
    ld.param.b32 %r2, [answer];
    }
    st.global.u32 [%rd1], %r2;
    ret;
}
)";

static void jump(Target &t, unsigned i) {
    const uint32_t indices[] = {3, 4, 1000, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff};
    launch_ptx(t, JUMP, "attack_jump", indices[i % 7]);
}

static void recursion(Target &t, unsigned i) { launch_ptx(t, RECURSION, "attack_recursion", 0x7fffffff >> i % 4); }

const std::vector<Attack> CALLS = {
    {"pointer to no function", pointer},
    {"jump past a table", jump},
    {"recursion", recursion},
};
