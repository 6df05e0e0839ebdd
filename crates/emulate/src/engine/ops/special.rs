//! Special registers, and values that are only known in a launch or a frame.

use crate::engine::context::Context;
use crate::engine::inst::{Class, Flow, Handler, Inst};
use crate::engine::warp::Warp;
use crate::mapping::LANES;

/// A value that is not in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    NwarpId,
    SmId,
    NsmId,
    GridId,
    LaneMask(u8),
    Clock,
    ClockHigh,
    Clock64,
    GlobalTimer,
    GlobalTimerLow,
    GlobalTimerHigh,
    DynamicSharedSize,
    TotalSharedSize,
    /// Start of the block's reserved shared memory, plus an offset.
    ReservedShared(u32),
    ReservedSharedSize,
    Envreg(u8),
    ClusterId(u8),
    NclusterId(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    /// Local offset plus the frame's.
    Frame(u32),
    /// Start of dynamic shared memory plus an offset.
    DynamicShared(u32),
    Zero,
}

impl Special {
    pub fn class(self) -> Class {
        match self {
            Special::Clock64 | Special::GlobalTimer | Special::GridId => Class::B64,
            Special::IsExplicitCluster => Class::Pred,
            _ => Class::B32,
        }
    }

    /// Whether it says where reserved shared memory is.
    pub fn is_reserved_shared(self) -> bool {
        matches!(
            self,
            Special::ReservedShared(_) | Special::ReservedSharedSize
        )
    }

    /// For [`Inst::imm`].
    pub fn code(self) -> u64 {
        use Special::*;
        let (kind, argument) = match self {
            Tid(i) => (0, u32::from(i)),
            Ntid(i) => (1, u32::from(i)),
            Ctaid(i) => (2, u32::from(i)),
            Nctaid(i) => (3, u32::from(i)),
            LaneId => (4, 0),
            WarpId => (5, 0),
            NwarpId => (6, 0),
            SmId => (7, 0),
            NsmId => (8, 0),
            GridId => (9, 0),
            LaneMask(i) => (10, u32::from(i)),
            Clock => (11, 0),
            ClockHigh => (12, 0),
            Clock64 => (13, 0),
            GlobalTimer => (14, 0),
            GlobalTimerLow => (15, 0),
            GlobalTimerHigh => (16, 0),
            DynamicSharedSize => (17, 0),
            TotalSharedSize => (18, 0),
            ReservedShared(offset) => (19, offset),
            Envreg(i) => (20, u32::from(i)),
            ClusterId(i) => (21, u32::from(i)),
            NclusterId(i) => (22, u32::from(i)),
            ClusterCtaid(i) => (23, u32::from(i)),
            ClusterNctaid(i) => (24, u32::from(i)),
            ClusterCtarank => (25, 0),
            ClusterNctarank => (26, 0),
            IsExplicitCluster => (27, 0),
            Frame(offset) => (28, offset),
            DynamicShared(offset) => (29, offset),
            Zero => (30, 0),
            ReservedSharedSize => (31, 0),
        };
        kind << 32 | u64::from(argument)
    }

    fn from_code(code: u64) -> Special {
        use Special::*;
        let argument = code as u32;
        let i = argument as u8;
        match code >> 32 {
            0 => Tid(i),
            1 => Ntid(i),
            2 => Ctaid(i),
            3 => Nctaid(i),
            4 => LaneId,
            5 => WarpId,
            6 => NwarpId,
            7 => SmId,
            8 => NsmId,
            9 => GridId,
            10 => LaneMask(i),
            11 => Clock,
            12 => ClockHigh,
            13 => Clock64,
            14 => GlobalTimer,
            15 => GlobalTimerLow,
            16 => GlobalTimerHigh,
            17 => DynamicSharedSize,
            18 => TotalSharedSize,
            19 => ReservedShared(argument),
            20 => Envreg(i),
            21 => ClusterId(i),
            22 => NclusterId(i),
            23 => ClusterCtaid(i),
            24 => ClusterNctaid(i),
            25 => ClusterCtarank,
            26 => ClusterNctarank,
            27 => IsExplicitCluster,
            28 => Frame(argument),
            29 => DynamicShared(argument),
            31 => ReservedSharedSize,
            _ => Zero,
        }
    }
}

/// The special register of a name.
pub(crate) fn by_name(name: &str) -> Option<Special> {
    use Special::*;
    let (head, component) = match name.rsplit_once('.') {
        Some((head, "x")) => (head, 0),
        Some((head, "y")) => (head, 1),
        Some((head, "z")) => (head, 2),
        Some((_, "w")) => return Some(Zero),
        _ => (name, 3),
    };
    let component = component as u8;
    if component < 3 {
        return Some(match head {
            "%tid" => Tid(component),
            "%ntid" => Ntid(component),
            "%ctaid" => Ctaid(component),
            "%nctaid" => Nctaid(component),
            "%clusterid" => ClusterId(component),
            "%nclusterid" => NclusterId(component),
            "%cluster_ctaid" => ClusterCtaid(component),
            "%cluster_nctaid" => ClusterNctaid(component),
            _ => return None,
        });
    }
    Some(match name {
        "%laneid" => LaneId,
        "%warpid" => WarpId,
        "%nwarpid" => NwarpId,
        "%smid" => SmId,
        "%nsmid" => NsmId,
        "%gridid" => GridId,
        "%lanemask_eq" => LaneMask(0),
        "%lanemask_le" => LaneMask(1),
        "%lanemask_lt" => LaneMask(2),
        "%lanemask_ge" => LaneMask(3),
        "%lanemask_gt" => LaneMask(4),
        "%clock" | "%clock_lo" => Clock,
        "%clock_hi" => ClockHigh,
        "%clock64" => Clock64,
        "%globaltimer" => GlobalTimer,
        "%globaltimer_lo" => GlobalTimerLow,
        "%globaltimer_hi" => GlobalTimerHigh,
        "%dynamic_smem_size" => DynamicSharedSize,
        "%total_smem_size" | "%aggr_smem_size" => TotalSharedSize,
        "%cluster_ctarank" => ClusterCtarank,
        "%cluster_nctarank" => ClusterNctarank,
        "%is_explicit_cluster" => IsExplicitCluster,
        _ => {
            if let Some(which) = name.strip_prefix("%reserved_smem_offset_") {
                return reserved(which);
            }
            let number: u8 = name.strip_prefix("%envreg")?.parse().ok()?;
            return (number < 32).then_some(Envreg(number));
        }
    })
}

/// Bytes of shared memory that a block has beside the program's, for system
/// software: cooperative groups keep barriers and what warps exchange in them.
/// They lie before the program's, as on GPUs from sm_80 on.
pub(crate) const RESERVED_SHARED: u32 = 1024;

/// Whether PTX has a special register of this name that [`by_name`] may lack:
/// a vector as a whole, or a counter of the profiler.
pub(crate) fn is_predefined(name: &str) -> bool {
    matches!(
        name,
        "%tid"
            | "%ntid"
            | "%ctaid"
            | "%nctaid"
            | "%clusterid"
            | "%nclusterid"
            | "%cluster_ctaid"
            | "%cluster_nctaid"
            | "%current_graph_exec"
    ) || name.starts_with("%pm")
}

/// `%reserved_smem_offset_…` (PTX ISA, chapter 10): where the memory begins and
/// ends, its size, and two places in it.
fn reserved(which: &str) -> Option<Special> {
    Some(match which {
        "begin" | "0" => Special::ReservedShared(0),
        "1" => Special::ReservedShared(RESERVED_SHARED / 2),
        "end" => Special::ReservedShared(RESERVED_SHARED),
        "cap" => Special::ReservedSharedSize,
        _ => return None,
    })
}

/// What one lane reads; the same for all lanes except where noted.
fn value(special: Special, warp: &Warp, context: &Context<'_>) -> u64 {
    use Special::*;
    let launch = context.launch;
    let block = context.block();
    let i = |i: u8| i as usize;
    let elapsed = || launch.started.elapsed().as_nanos() as u64;
    match special {
        Ntid(c) => u64::from(launch.block[i(c)]),
        Ctaid(c) => u64::from(block.index[i(c)]),
        Nctaid(c) => u64::from(launch.grid[i(c)]),
        WarpId => u64::from(warp.index),
        NwarpId => u64::from((launch.block.iter().product::<u32>()).div_ceil(LANES as u32)),
        SmId => u64::from(context.worker),
        NsmId => u64::from(launch.workers),
        GridId => 1,
        Clock | Clock64 => elapsed(),
        ClockHigh => elapsed() >> 32,
        GlobalTimer | GlobalTimerLow | GlobalTimerHigh => {
            let now = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |d| d.as_nanos() as u64);
            if special == GlobalTimerHigh {
                now >> 32
            } else {
                now
            }
        }
        DynamicSharedSize => u64::from(launch.dynamic_shared),
        // (PTX ISA: without what is reserved, a multiple of the unit of allocation.)
        TotalSharedSize => u64::from(launch.shared_end - RESERVED_SHARED),
        ReservedShared(offset) => u64::from(offset),
        ReservedSharedSize => u64::from(RESERVED_SHARED),
        Zero => 0,
        // The driver passes the workspace of grid-wide barriers so
        // (cooperative_groups/details/helpers.h).
        Envreg(1) => launch.workspace >> 32,
        Envreg(2) => launch.workspace,
        Envreg(_) => 0,
        ClusterId(c) => u64::from(block.index[i(c)] / launch.cluster[i(c)]),
        NclusterId(c) => u64::from(launch.grid[i(c)] / launch.cluster[i(c)]),
        ClusterCtaid(c) => u64::from(block.index[i(c)] % launch.cluster[i(c)]),
        ClusterNctaid(c) => u64::from(launch.cluster[i(c)]),
        ClusterCtarank => u64::from(block.rank),
        ClusterNctarank => u64::from(launch.cluster.iter().product::<u32>()),
        IsExplicitCluster => u64::from(launch.cluster != [1, 1, 1]),
        Frame(offset) => u64::from(warp.frame.local.wrapping_add(offset)),
        DynamicShared(offset) => u64::from(launch.dynamic_start.wrapping_add(offset)),
        Tid(_) | LaneId | LaneMask(_) => 0,
    }
}

fn read32(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let special = Special::from_code(inst.imm);
    let row = match special {
        Special::Tid(component) => warp.thread[component as usize],
        Special::LaneId => std::array::from_fn(|lane| lane as u32),
        Special::LaneMask(kind) => std::array::from_fn(|lane| {
            let bit = 1u32 << lane;
            match kind {
                0 => bit,
                1 => bit | (bit - 1),
                2 => bit - 1,
                3 => !(bit - 1),
                _ => !(bit | (bit - 1)),
            }
        }),
        _ => [value(special, warp, context) as u32; LANES],
    };
    warp.set_row::<u32>(inst.d, mask, &row);
    Flow::Next
}

fn read64(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let special = Special::from_code(inst.imm);
    let row: [u64; LANES] = match special {
        Special::Tid(component) => warp.thread[component as usize].map(u64::from),
        Special::LaneId => std::array::from_fn(|lane| lane as u64),
        _ => [value(special, warp, context); LANES],
    };
    warp.set_row::<u64>(inst.d, mask, &row);
    Flow::Next
}

fn read_pred(warp: &mut Warp, context: &mut Context<'_>, inst: &Inst, mask: u32) -> Flow {
    let set = value(Special::from_code(inst.imm), warp, context) != 0;
    warp.set_pred(inst.d, mask, if set { u32::MAX } else { 0 });
    Flow::Next
}

/// What reads a special register into a register of a class.
pub(crate) fn handler(class: Class) -> Handler {
    match class {
        Class::Pred => read_pred,
        Class::B64 => read64,
        _ => read32,
    }
}
