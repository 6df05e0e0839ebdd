// Written by `cargo xtask generate` from crates/model/src/layout; do not edit.
//
// What host and device share: numbers, and structs, whose fields and meaning
// crates/model/src/layout explains.

#pragma once

typedef int i32;
typedef unsigned int u32;
typedef unsigned long long u64;

// layout
#define RF_MISS_SIZE 0x200000000008
#define RF_RING_HEAD 0x200000000000
#define RF_RING_TAIL 0x210000000000
#define RF_RING_RECORDS 0x210000001000
#define RF_RING_CAPACITY 0x8000

// canary
#define RF_CANARY_TABLE 0x203800000000
#define RF_CANARY_PINS 0x203810000000
#define RF_CANARY_CLAIMED 0x80000000
#define RF_CANARY_RECORD 0x0
#define RF_CHECK_STAMPS 0x210020000000
#define RF_CHECK_BLOCKS 0x200000004000
#define RF_STAMPS 0x1000
#define RF_NAMED_SLOTS 0x8
#define RF_SLOTS_NAMED 0xffffffff

// guard
#define RF_GUARD_CONTROL 0x210010000000
#define RF_STOP 0x0
#define RF_TABLE_SLOTS 0x8
#define RF_CONSUMED 0x10
#define RF_EPOCH 0x80
#define RF_BEGUN 0x88
#define RF_ENDED 0x90
#define RF_TIME 0x98
#define RF_FOUND 0xa0
#define RF_VERIFIED 0xa8
#define RF_FINDINGS 0x1000
#define RF_GUARD_FINDINGS 0x400
#define RF_SIDE_BEFORE 0x0
#define RF_SIDE_AFTER 0x1

// heap
#define RF_HEAP_BASE 0x400000000000
#define RF_CHUNK_SHIFT 0xe
#define RF_CHUNK_BLOCKS 0x100
#define RF_CLASSES 0x17
#define RF_SLOTS 0x20
#define RF_HEAP_CHUNKS_MAPPED 0x200000000010
#define RF_HEAP_CONTROL 0x203000000000
#define RF_HEAP_MAPS 0x203010000000
#define RF_MAP_WORDS 0x20
#define RF_MAP_FREE 0x1f
#define RF_HEAP_QUARANTINE 0x203040000000
#define RF_QUARANTINE_CAPACITY 0x100000
#define RF_HEAP_CHUNKS 0x203100000000
#define RF_HEAP_HEADERS 0x204000000000
#define RF_KIND_RUN 0x40
#define RF_KIND_REST 0x41
#define RF_STATE_SHIFT 0x38
#define RF_STATE_LIVE 0x1
#define RF_STATE_FREED 0x2
#define RF_STATE_FREEING 0x3
#define RF_FREE_AGAIN 0x1
#define RF_FREE_INSIDE 0x2
#define RF_FREE_NOTHING 0x3

// records
#define RF_HEAP_WATCH 0x203000100000
#define RF_HEAP_RECORDS 0x208000000000
#define RF_RECORD_RINGS 0x20
#define RF_RECORD_SEGMENT 0x100
#define RF_RECORD_TRIES 0x100000
#define RF_BLOCK_HEAD 0x10
#define RF_HEAP_RECORD 0x1

// tenant
#define RF_PRINT_FORMAT 0x1000
#define RF_PRINT_ARGUMENTS 0x400
#define RF_PRINT_STRING 0x1000
#define RF_TENANT_CLASSES 0x25
#define RF_TENANT_LEAST 0x5
#define RF_TENANT_HEAD 0x10
#define RF_TENANT_LIVE 0x5246484541500000

struct Record {
    u64 sequence;
    u64 module;
    u64 address;
    u64 base;
    u64 size;
    u64 launch;
    u32 site;
    u32 thread;
    u32 block_x;
    u32 block_yz;
};
static_assert(sizeof(Record) == 64, "Record");
static_assert(offsetof(Record, sequence) == 0, "Record::sequence");
static_assert(offsetof(Record, module) == 8, "Record::module");
static_assert(offsetof(Record, address) == 16, "Record::address");
static_assert(offsetof(Record, base) == 24, "Record::base");
static_assert(offsetof(Record, size) == 32, "Record::size");
static_assert(offsetof(Record, launch) == 40, "Record::launch");
static_assert(offsetof(Record, site) == 48, "Record::site");
static_assert(offsetof(Record, thread) == 52, "Record::thread");
static_assert(offsetof(Record, block_x) == 56, "Record::block_x");
static_assert(offsetof(Record, block_yz) == 60, "Record::block_yz");

struct CanaryRecord {
    u64 base;
    u64 size;
    u64 serial;
    u32 before;
    u32 after;
    u64 pattern[2];
    u64 context;
    u64 check;
};
static_assert(sizeof(CanaryRecord) == 64, "CanaryRecord");
static_assert(offsetof(CanaryRecord, base) == 0, "CanaryRecord::base");
static_assert(offsetof(CanaryRecord, size) == 8, "CanaryRecord::size");
static_assert(offsetof(CanaryRecord, serial) == 16, "CanaryRecord::serial");
static_assert(offsetof(CanaryRecord, before) == 24, "CanaryRecord::before");
static_assert(offsetof(CanaryRecord, after) == 28, "CanaryRecord::after");
static_assert(offsetof(CanaryRecord, pattern) == 32, "CanaryRecord::pattern");
static_assert(offsetof(CanaryRecord, context) == 48, "CanaryRecord::context");
static_assert(offsetof(CanaryRecord, check) == 56, "CanaryRecord::check");

struct CheckStamp {
    u64 check;
    u64 begun;
    u64 ended;
    u64 reserved;
};
static_assert(sizeof(CheckStamp) == 32, "CheckStamp");
static_assert(offsetof(CheckStamp, check) == 0, "CheckStamp::check");
static_assert(offsetof(CheckStamp, begun) == 8, "CheckStamp::begun");
static_assert(offsetof(CheckStamp, ended) == 16, "CheckStamp::ended");
static_assert(offsetof(CheckStamp, reserved) == 24, "CheckStamp::reserved");

struct CheckParameters {
    u64 check;
    u64 context;
    u32 first;
    u32 count;
    u32 retire;
    u32 reserved;
    u32 slots[8];
};
static_assert(sizeof(CheckParameters) == 64, "CheckParameters");
static_assert(offsetof(CheckParameters, check) == 0, "CheckParameters::check");
static_assert(offsetof(CheckParameters, context) == 8, "CheckParameters::context");
static_assert(offsetof(CheckParameters, first) == 16, "CheckParameters::first");
static_assert(offsetof(CheckParameters, count) == 20, "CheckParameters::count");
static_assert(offsetof(CheckParameters, retire) == 24, "CheckParameters::retire");
static_assert(offsetof(CheckParameters, reserved) == 28, "CheckParameters::reserved");
static_assert(offsetof(CheckParameters, slots) == 32, "CheckParameters::slots");

struct FillParameters {
    CanaryRecord record;
    u64 slot;
};
static_assert(sizeof(FillParameters) == 72, "FillParameters");
static_assert(offsetof(FillParameters, record) == 0, "FillParameters::record");
static_assert(offsetof(FillParameters, slot) == 64, "FillParameters::slot");

struct GuardFinding {
    u64 sequence;
    u64 base;
    u64 size;
    u64 serial;
    u64 side;
    u64 lowest;
    u64 highest;
    u64 changed;
    u64 content[2];
    u64 time;
    u64 epoch;
    u64 reserved[4];
};
static_assert(sizeof(GuardFinding) == 128, "GuardFinding");
static_assert(offsetof(GuardFinding, sequence) == 0, "GuardFinding::sequence");
static_assert(offsetof(GuardFinding, base) == 8, "GuardFinding::base");
static_assert(offsetof(GuardFinding, size) == 16, "GuardFinding::size");
static_assert(offsetof(GuardFinding, serial) == 24, "GuardFinding::serial");
static_assert(offsetof(GuardFinding, side) == 32, "GuardFinding::side");
static_assert(offsetof(GuardFinding, lowest) == 40, "GuardFinding::lowest");
static_assert(offsetof(GuardFinding, highest) == 48, "GuardFinding::highest");
static_assert(offsetof(GuardFinding, changed) == 56, "GuardFinding::changed");
static_assert(offsetof(GuardFinding, content) == 64, "GuardFinding::content");
static_assert(offsetof(GuardFinding, time) == 80, "GuardFinding::time");
static_assert(offsetof(GuardFinding, epoch) == 88, "GuardFinding::epoch");
static_assert(offsetof(GuardFinding, reserved) == 96, "GuardFinding::reserved");

struct GuardParameters {
    u64 slice;
    u64 context;
    u64 nanoseconds;
    u64 pause;
};
static_assert(sizeof(GuardParameters) == 32, "GuardParameters");
static_assert(offsetof(GuardParameters, slice) == 0, "GuardParameters::slice");
static_assert(offsetof(GuardParameters, context) == 8, "GuardParameters::context");
static_assert(offsetof(GuardParameters, nanoseconds) == 16, "GuardParameters::nanoseconds");
static_assert(offsetof(GuardParameters, pause) == 24, "GuardParameters::pause");

struct HeapControl {
    u64 quarantine_budget;
    u64 held;
    u32 head;
    u32 tail;
    i32 free_chunks;
    u32 low;
    u32 maybe_empty;
    u32 reclaiming;
    u32 version;
    u32 high;
    i32 partial[24];
    u32 active[23][32];
    u32 near[23];
};
static_assert(sizeof(HeapControl) == 3184, "HeapControl");
static_assert(offsetof(HeapControl, quarantine_budget) == 0, "HeapControl::quarantine_budget");
static_assert(offsetof(HeapControl, held) == 8, "HeapControl::held");
static_assert(offsetof(HeapControl, head) == 16, "HeapControl::head");
static_assert(offsetof(HeapControl, tail) == 20, "HeapControl::tail");
static_assert(offsetof(HeapControl, free_chunks) == 24, "HeapControl::free_chunks");
static_assert(offsetof(HeapControl, low) == 28, "HeapControl::low");
static_assert(offsetof(HeapControl, maybe_empty) == 32, "HeapControl::maybe_empty");
static_assert(offsetof(HeapControl, reclaiming) == 36, "HeapControl::reclaiming");
static_assert(offsetof(HeapControl, version) == 40, "HeapControl::version");
static_assert(offsetof(HeapControl, high) == 44, "HeapControl::high");
static_assert(offsetof(HeapControl, partial) == 48, "HeapControl::partial");
static_assert(offsetof(HeapControl, active) == 144, "HeapControl::active");
static_assert(offsetof(HeapControl, near) == 3088, "HeapControl::near");

struct HeapChunk {
    u32 kind;
    u32 stride;
    u32 magic;
    u32 capacity;
    i32 count;
    u32 reclaimed;
    u32 reserved[2];
    u32 taken[8];
};
static_assert(sizeof(HeapChunk) == 64, "HeapChunk");
static_assert(offsetof(HeapChunk, kind) == 0, "HeapChunk::kind");
static_assert(offsetof(HeapChunk, stride) == 4, "HeapChunk::stride");
static_assert(offsetof(HeapChunk, magic) == 8, "HeapChunk::magic");
static_assert(offsetof(HeapChunk, capacity) == 12, "HeapChunk::capacity");
static_assert(offsetof(HeapChunk, count) == 16, "HeapChunk::count");
static_assert(offsetof(HeapChunk, reclaimed) == 20, "HeapChunk::reclaimed");
static_assert(offsetof(HeapChunk, reserved) == 24, "HeapChunk::reserved");
static_assert(offsetof(HeapChunk, taken) == 32, "HeapChunk::taken");

struct HeapHeader {
    u64 word;
    u64 allocated;
    u64 freed;
    u32 allocated_launch;
    u32 freed_launch;
};
static_assert(sizeof(HeapHeader) == 32, "HeapHeader");
static_assert(offsetof(HeapHeader, word) == 0, "HeapHeader::word");
static_assert(offsetof(HeapHeader, allocated) == 8, "HeapHeader::allocated");
static_assert(offsetof(HeapHeader, freed) == 16, "HeapHeader::freed");
static_assert(offsetof(HeapHeader, allocated_launch) == 24, "HeapHeader::allocated_launch");
static_assert(offsetof(HeapHeader, freed_launch) == 28, "HeapHeader::freed_launch");

struct HeapKeys {
    u64 head;
    u64 tail;
    u64 size;
    u64 free;
};
static_assert(sizeof(HeapKeys) == 32, "HeapKeys");
static_assert(offsetof(HeapKeys, head) == 0, "HeapKeys::head");
static_assert(offsetof(HeapKeys, tail) == 8, "HeapKeys::tail");
static_assert(offsetof(HeapKeys, size) == 16, "HeapKeys::size");
static_assert(offsetof(HeapKeys, free) == 24, "HeapKeys::free");

struct RecordRing {
    u64 word;
    u32 lock;
    u32 first;
    u32 cursor;
    u32 reserved[27];
};
static_assert(sizeof(RecordRing) == 128, "RecordRing");
static_assert(offsetof(RecordRing, word) == 0, "RecordRing::word");
static_assert(offsetof(RecordRing, lock) == 8, "RecordRing::lock");
static_assert(offsetof(RecordRing, first) == 12, "RecordRing::first");
static_assert(offsetof(RecordRing, cursor) == 16, "RecordRing::cursor");
static_assert(offsetof(RecordRing, reserved) == 20, "RecordRing::reserved");

struct HeapWatch {
    HeapKeys keys;
    u32 slots;
    u32 freed;
    u32 collecting;
    u32 reserved[21];
    RecordRing rings[32];
};
static_assert(sizeof(HeapWatch) == 4224, "HeapWatch");
static_assert(offsetof(HeapWatch, keys) == 0, "HeapWatch::keys");
static_assert(offsetof(HeapWatch, slots) == 32, "HeapWatch::slots");
static_assert(offsetof(HeapWatch, freed) == 36, "HeapWatch::freed");
static_assert(offsetof(HeapWatch, collecting) == 40, "HeapWatch::collecting");
static_assert(offsetof(HeapWatch, reserved) == 44, "HeapWatch::reserved");
static_assert(offsetof(HeapWatch, rings) == 128, "HeapWatch::rings");

struct TenantPrint {
    u64 used;
    u64 size;
    u64 records;
    u64 lost;
};
static_assert(sizeof(TenantPrint) == 32, "TenantPrint");
static_assert(offsetof(TenantPrint, used) == 0, "TenantPrint::used");
static_assert(offsetof(TenantPrint, size) == 8, "TenantPrint::size");
static_assert(offsetof(TenantPrint, records) == 16, "TenantPrint::records");
static_assert(offsetof(TenantPrint, lost) == 24, "TenantPrint::lost");

struct PrintHead {
    u32 total;
    u32 format;
    u32 arguments;
    u32 strings;
};
static_assert(sizeof(PrintHead) == 16, "PrintHead");
static_assert(offsetof(PrintHead, total) == 0, "PrintHead::total");
static_assert(offsetof(PrintHead, format) == 4, "PrintHead::format");
static_assert(offsetof(PrintHead, arguments) == 8, "PrintHead::arguments");
static_assert(offsetof(PrintHead, strings) == 12, "PrintHead::strings");

struct TenantHeap {
    u64 base;
    u64 size;
    u64 used;
    u64 free[37];
};
static_assert(sizeof(TenantHeap) == 320, "TenantHeap");
static_assert(offsetof(TenantHeap, base) == 0, "TenantHeap::base");
static_assert(offsetof(TenantHeap, size) == 8, "TenantHeap::size");
static_assert(offsetof(TenantHeap, used) == 16, "TenantHeap::used");
static_assert(offsetof(TenantHeap, free) == 24, "TenantHeap::free");

static __device__ __forceinline__ u64 mixed(u64 sum, u64 word) {
    return ((sum << 23 | sum >> 41) ^ word) * 0x9e3779b97f4a7c15ull;
}

// `CanaryRecord::checksum` of model::layout.
static __device__ __forceinline__ u64 checksum(const CanaryRecord &record) {
    u64 sum = 0x524643414e415259ull;
    sum = mixed(sum, record.base);
    sum = mixed(sum, record.size);
    sum = mixed(sum, record.serial);
    sum = mixed(sum, (u64)record.before | (u64)record.after << 32);
    sum = mixed(sum, record.pattern[0]);
    sum = mixed(sum, record.pattern[1]);
    sum = mixed(sum, record.context);
    return sum | 1;
}
