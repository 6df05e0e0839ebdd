//! The names in the text of checks. The pass writes them and the verifier reads
//! them. The meaning of a name is in its comment; neither side derives it from
//! the other. There is no logic here.

/// Begins every register that a check uses.
pub(crate) const REGISTER_PREFIX: &str = "%__rf_";
/// Begins every label that a check uses.
pub(crate) const LABEL_PREFIX: &str = "$__rf_";
/// Begins every other name that a check uses.
pub(crate) const NAME_PREFIX: &str = "__ringfence_";

/// Families of registers: a number follows.
pub(crate) mod family {
    /// Redirected addresses, one a check.
    pub(crate) const REDIRECTED: &str = "%__rf_a";
    /// Base of a root's bounds, by its number in the analysis.
    pub(crate) const ROOT_BASE: &str = "%__rf_b";
    /// Size of a root's bounds.
    pub(crate) const ROOT_SIZE: &str = "%__rf_s";
    /// Limits of offsets, one for each root and extent.
    pub(crate) const LIMIT: &str = "%__rf_m";
    /// The first index in bounds, one for each form of access by index; and how many
    /// follow it.
    pub(crate) const INDEX_FROM: &str = "%__rf_i";
    /// See `INDEX_FROM`.
    pub(crate) const INDEX_SPAN: &str = "%__rf_in";
    /// Verdicts that are used again.
    pub(crate) const KEPT: &str = "%__rf_k";
    /// Base and size that travel with a register.
    pub(crate) const SHADOW_BASE: &str = "%__rf_hb";
    /// See `SHADOW_BASE`.
    pub(crate) const SHADOW_SIZE: &str = "%__rf_hs";
    /// Addresses of places as their own space has them, 32 bits, by root.
    pub(crate) const IN_SPACE: &str = "%__rf_c";
    /// The same, 64 bits.
    pub(crate) const IN_SPACE_WIDE: &str = "%__rf_e";
    /// Replaces the guard of an access whose check may fail.
    pub(crate) const GO: &str = "%__rf_g";
    /// Bounds of arguments that were looked up for a call.
    pub(crate) const PASSED_BASE: &str = "%__rf_pb";
    /// See `PASSED_BASE`.
    pub(crate) const PASSED_SIZE: &str = "%__rf_ps";
    /// The address that a call through a pointer calls instead, by number of
    /// the call.
    pub(crate) const CALLEE: &str = "%__rf_f";
    /// Pointers to strings that are printed.
    pub(crate) const TEXT: &str = "%__rf_text";
    /// Whether a string leaves its bounds.
    pub(crate) const CUT: &str = "%__rf_cut";
    /// Registers of 32 bits for what is computed before loops.
    pub(crate) const NARROW: &str = "%__rf_n";
    /// The same, of 64 bits.
    pub(crate) const WIDE: &str = "%__rf_z";
    /// The values that a thunk passes on.
    pub(crate) const MOVED: &str = "%__rf_v";
}

/// Single registers.
pub(crate) mod register {
    /// How far an address is from a base.
    pub(crate) const OFFSET: &str = "%__rf_o";
    /// Scratch of 64 bits.
    pub(crate) const SCRATCH: &str = "%__rf_t";
    /// Scratch of 64 bits.
    pub(crate) const SCRATCH2: &str = "%__rf_u";
    /// A verdict: the address is outside.
    pub(crate) const OUTSIDE: &str = "%__rf_q";
    /// Scratch predicate.
    pub(crate) const OTHER: &str = "%__rf_r";
    /// Bounds that were looked up.
    pub(crate) const WEAK_BASE: &str = "%__rf_wb";
    /// See `WEAK_BASE`.
    pub(crate) const WEAK_SIZE: &str = "%__rf_ws";
    /// Bounds that go back with a result.
    pub(crate) const GIVEN_BASE: &str = "%__rf_rb";
    /// See `GIVEN_BASE`.
    pub(crate) const GIVEN_SIZE: &str = "%__rf_rs";
    /// The site of the last check that failed; zero if none did.
    pub(crate) const SITE: &str = "%__rf_site";
    /// The address that it was about.
    pub(crate) const ADDRESS: &str = "%__rf_address";
    /// The bounds that it was checked against.
    pub(crate) const RECORD_BASE: &str = "%__rf_record_base";
    /// See `RECORD_BASE`.
    pub(crate) const RECORD_SIZE: &str = "%__rf_record_size";
    /// As `ADDRESS`, of an access to an object in a space of its own ([`super::IN_SPACE_SITE`]).
    pub(crate) const SPACE_ADDRESS: &str = "%__rf_space_address";
    /// Where that object begins, if it is one of several.
    pub(crate) const SPACE_BASE: &str = "%__rf_space_base";
    /// The address of the record that is being written, whichever of both it is.
    pub(crate) const TOLD_ADDRESS: &str = "%__rf_told_address";
    /// And the bounds.
    pub(crate) const TOLD_BASE: &str = "%__rf_told_base";
    /// See `TOLD_BASE`.
    pub(crate) const TOLD_SIZE: &str = "%__rf_told_size";
    /// The last site that the thread has recorded, in code that may end other than
    /// by an exit; zero if there is none.
    pub(crate) const REPORTED: &str = "%__rf_reported";
    /// How often the thread came to open loops after it had failed a check.
    pub(crate) const ROUNDS: &str = "%__rf_rounds";
    /// A part of the record that is being written.
    pub(crate) const RECORD_WORD: &str = "%__rf_record_word";
    /// What is added to it.
    pub(crate) const RECORD_PART: &str = "%__rf_record_part";
    /// The program's next instruction is left out.
    pub(crate) const STOP: &str = "%__rf_stop";
    /// Replaces its guard.
    pub(crate) const GO_ON: &str = "%__rf_go";
    /// The thread has failed no check, where those that have one trap.
    pub(crate) const UNHARMED: &str = "%__rf_unharmed";
    /// A pointer of 32 bits.
    pub(crate) const POINTER32: &str = "%__rf_p";
    /// How far it is from a base.
    pub(crate) const OFFSET32: &str = "%__rf_d";
    /// The limit of that.
    pub(crate) const LIMIT32: &str = "%__rf_l";
    /// Bytes of the launch's dynamic shared memory.
    pub(crate) const DYNAMIC: &str = "%__rf_dynamic";
    /// Bytes of the block's whole shared memory.
    pub(crate) const BLOCK: &str = "%__rf_block";
    /// Low bits of an address.
    pub(crate) const LOW_BITS: &str = "%__rf_x";
    /// Number of the lane.
    pub(crate) const LANE: &str = "%__rf_lane";
    /// A generic address.
    pub(crate) const GENERIC: &str = "%__rf_w";
    /// Shadow byte of the block that an access begins in.
    pub(crate) const BYTE: &str = "%__rf_byte";
    /// That of the next block, if the access may end there.
    pub(crate) const BYTE2: &str = "%__rf_byte2";
    /// Offset of its last byte in the block that it begins in.
    pub(crate) const LAST: &str = "%__rf_last";
    /// Low half of the address of an access's first byte.
    pub(crate) const LOW: &str = "%__rf_lo";
    /// High half.
    pub(crate) const HIGH: &str = "%__rf_hi";
    /// The unit of memory that an address is in, counted from the window's first;
    /// then the low half of its shadow byte's address.
    pub(crate) const UNIT: &str = "%__rf_unit";
    /// The window's first unit.
    pub(crate) const FIRST_UNIT: &str = "%__rf_first";
    /// How many units are in the window.
    pub(crate) const UNITS: &str = "%__rf_units";
    /// The unit, counted from the first one of placed allocations.
    pub(crate) const PLACED_UNIT: &str = "%__rf_unit2";
    /// How many units of placed allocations are covered.
    pub(crate) const PLACED_UNITS: &str = "%__rf_placed";
    /// Some access so far is not in the buffer where it was expected.
    pub(crate) const FAR: &str = "%__rf_far";
    /// The passes of the loop that follows but the first; or how far its counter goes.
    pub(crate) const PASSES: &str = "%__rf_passes";
    /// The loop that follows is not known to stay in bounds.
    pub(crate) const SLOW: &str = "%__rf_slow";
    /// Bytes of live buffers are poisoned, of which their bounds know nothing.
    pub(crate) const POISONED: &str = "%__rf_poisoned";
    /// The address has shadow memory.
    pub(crate) const COVERED: &str = "%__rf_covered";
}

/// Added to the sites of checks that keep 32 bits of an address: of accesses to objects in
/// spaces of their own. A check keeps as little as it can, and what is written of it is
/// found where the record is written. Which object it is of is added, too, from this bit on,
/// if there are not more than [`MOST_OBJECTS`]; else the check keeps where the object begins.
pub(crate) const IN_SPACE_SITE: u32 = 1 << 31;
/// See `IN_SPACE_SITE`.
pub(crate) const OBJECT_SHIFT: u32 = 24;
/// The last site that a record can name: the bits below the object's number.
pub(crate) const LAST_SITE: u32 = (1 << OBJECT_SHIFT) - 1;
/// See `IN_SPACE_SITE`.
pub(crate) const MOST_OBJECTS: usize = 8;

/// Where threads end that [`register::ROUNDS`] says are to.
pub(crate) const LEAVE: &str = "$__rf_leave";
/// From so many rounds on, a thread that has failed a check leaves open loops
/// (`analysis::open_loops`): what it waits for there may never come, because it reads
/// zeros in place of what is out of bounds.
pub(crate) const MOST_ROUNDS: u32 = 1 << 18;

/// Finds the extent that a pointer points into.
pub(crate) const LOOKUP: &str = "__ringfence_lookup";
/// Finds the end of a string.
pub(crate) const TEXT: &str = "__ringfence_text";
/// Checks an access to any number of blocks against shadow memory.
pub(crate) const BLOCKS: &str = "__ringfence_blocks";
/// Appends a record.
pub(crate) const APPEND: &str = "__ringfence_append";
/// The function that calls of `malloc` call instead.
pub(crate) const MALLOC: &str = "__ringfence_malloc";
/// The function that calls of `free` call instead.
pub(crate) const FREE: &str = "__ringfence_free";
/// Whether bounds that were found earlier still hold.
pub(crate) const STILL: &str = "__ringfence_still";
/// The place of a call of `malloc` or `free`; with the site's number.
pub(crate) const HEAP_PLACE: &str = "__ringfence_w";
/// The launch that such a call belongs to; likewise.
pub(crate) const HEAP_LAUNCH: &str = "__ringfence_l";

/// The bounds that a call passes to a copy, after the program's arguments; with
/// the number of the call.
pub(crate) const PASSED: &str = "__ringfence_bounds";
/// The result of a copy that returns bounds; likewise.
pub(crate) const RESULT: &str = "__ringfence_result";
/// Maps the address of a function to that of its checked copy; with the
/// number of the class.
pub(crate) const TARGET: &str = "__ringfence_target";
/// Calls a function that has no checked copy; likewise.
pub(crate) const THUNK: &str = "__ringfence_thunk";
/// The prototype of a call of a copy through a pointer; with the number of the
/// call.
pub(crate) const PROTOTYPE: &str = "__ringfence_prototype";
/// Bytes, behind the bounds that the copies of a class take, of the address
/// that the program called. Only the thunk reads it.
pub(crate) const CALLED: u32 = size_of::<u64>() as u32;
