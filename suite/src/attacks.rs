//! The attacks of GMOD's table 3: cases of the group `watch` that the bench of
//! the guard also times.

/// One attack. *Fine*: its buffer comes from malloc in a kernel; *coarse*: from
/// cudaMalloc.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Its case, `suite/cases/watch/CASE.cu`; beside the benches its program
    /// has the same name.
    pub case: &'static str,
    /// Its name in tables.
    pub name: &'static str,
    /// The kernel that writes where it must not.
    pub writer: &'static str,
    /// The kernel during which it must be detected.
    pub victim: &'static str,
    /// How long that one runs, about as in the paper.
    pub microseconds: u32,
}

const SINGLE: Attack = Attack {
    case: "single_kernel",
    name: "single kernel (coarse)",
    writer: "overrun",
    victim: "overrun",
    microseconds: 950,
};

const SEQUENTIAL: Attack = Attack {
    case: "sequential_kernels",
    name: "sequential kernels (coarse)",
    writer: "attacker",
    victim: "victim",
    microseconds: 1250,
};

const CONCURRENT: Attack = Attack {
    case: "concurrent_kernels",
    name: "concurrent kernels (coarse)",
    writer: "attacker",
    victim: "victim",
    microseconds: 10_800,
};

/// All of them, in the order of the paper's table.
pub const ATTACKS: [Attack; 6] = [
    Attack {
        case: "single_kernel_fine",
        name: "single kernel (fine)",
        ..SINGLE
    },
    Attack {
        case: "sequential_kernels_fine",
        name: "sequential kernels (fine)",
        ..SEQUENTIAL
    },
    Attack {
        case: "concurrent_kernels_fine",
        name: "concurrent kernels (fine)",
        ..CONCURRENT
    },
    SINGLE,
    SEQUENTIAL,
    CONCURRENT,
];
