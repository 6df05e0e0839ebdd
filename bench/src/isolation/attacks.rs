//! The attacks, by class.

use super::neighbour::Neighbour;
use super::{Bench, Made, exhaustion, forged, fuzz, rings};
use anyhow::Result;

/// An attack.
pub struct Attack {
    /// Its class.
    pub class: &'static str,
    /// Its name; for those of programs, as the program has it.
    pub name: &'static str,
    /// How it is made.
    pub kind: Kind,
    /// On a GPU it could not be ended in the control, where nothing is fenced.
    pub is_cpu_only: bool,
}

/// What an attack by messages is.
type Protocol = fn(&Bench<'_>, &mut Neighbour) -> Result<Made>;

/// How an attack is made.
#[derive(Clone, Copy)]
pub enum Kind {
    /// By the program `attacker`, of this group of its attacks.
    Program {
        /// The group.
        group: &'static str,
    },
    /// By the program `attacker`, of this group of its attacks, in so many processes
    /// that run until they are killed.
    Endless {
        /// The group.
        group: &'static str,
        /// The processes, each a tenant.
        tenants: usize,
    },
    /// By the program `attacker`, which is killed in the middle of this.
    Killed {
        /// Of what.
        what: &'static str,
    },
    /// By messages.
    Protocol(Protocol),
}

const fn program(class: &'static str, group: &'static str, name: &'static str) -> Attack {
    Attack {
        class,
        name,
        kind: Kind::Program { group },
        is_cpu_only: false,
    }
}

const fn access(name: &'static str) -> Attack {
    program("out of bounds", "accesses", name)
}

const fn endless(name: &'static str) -> Attack {
    Attack {
        class: "kernels that do not end",
        name,
        kind: Kind::Endless {
            group: "loops",
            tenants: 1,
        },
        is_cpu_only: false,
    }
}

const fn waiting(name: &'static str) -> Attack {
    Attack {
        class: "threads that wait for ever",
        kind: Kind::Endless {
            group: "waits",
            tenants: 1,
        },
        ..endless(name)
    }
}

const fn killed(name: &'static str, what: &'static str) -> Attack {
    Attack {
        class: "kill -9",
        name,
        kind: Kind::Killed { what },
        is_cpu_only: false,
    }
}

const fn protocol(class: &'static str, name: &'static str, attack: Protocol) -> Attack {
    Attack {
        class,
        name,
        kind: Kind::Protocol(attack),
        is_cpu_only: false,
    }
}

/// All of them, in the order in which they are made.
pub const ATTACKS: &[Attack] = &[
    access("near-after (write)"),
    access("near-after (read)"),
    access("near-before (write)"),
    access("near-before (read)"),
    access("far (write)"),
    access("far (read)"),
    access("anywhere (write)"),
    access("anywhere (read)"),
    access("neighbour (write)"),
    access("neighbour (read)"),
    access("partitions (write)"),
    access("partitions (read)"),
    access("metadata (write)"),
    access("metadata (read)"),
    program("misaligned access", "accesses", "misaligned"),
    program("shared and local memory", "accesses", "shared"),
    program("shared and local memory", "accesses", "local"),
    program("ends of the context", "ends", "trap"),
    program("ends of the context", "ends", "assert"),
    program("ends of the context", "ends", "breakpoint"),
    // (Natively the device ends the context; fenced, the threads wait for ever.)
    Attack {
        class: "ends of the context",
        ..waiting("operations at a barrier")
    },
    program("calls and jumps", "calls", "pointer to no function"),
    program("calls and jumps", "calls", "jump past a table"),
    program("calls and jumps", "calls", "recursion"),
    endless("loop of loads"),
    endless("loop of arithmetic"),
    endless("loop of sleeps"),
    endless("loop of barriers"),
    endless("huge trip count"),
    endless("huge grid"),
    endless("call tree"),
    endless("many small grids"),
    endless("ended while it loads code"),
    endless("kernels that end in time"),
    Attack {
        class: "tenants that work together",
        kind: Kind::Endless {
            group: "loops",
            tenants: 2,
        },
        ..endless("loop of loads")
    },
    waiting("two barriers"),
    waiting("barrier for more threads"),
    waiting("two barriers for more threads"),
    waiting("arrivals for more threads"),
    waiting("reduction for more threads"),
    waiting("both kinds of barriers"),
    waiting("lanes and block"),
    waiting("mbarrier"),
    waiting("cooperative grid"),
    waiting("cluster"),
    waiting("dependent launches"),
    program("addresses in host calls", "copies", "memcpy from"),
    program("addresses in host calls", "copies", "memcpy to"),
    program("addresses in host calls", "copies", "memcpy within"),
    program("addresses in host calls", "copies", "memcpy of rows"),
    program("addresses in host calls", "copies", "memset"),
    program("addresses in host calls", "copies", "free"),
    program("residue", "residues", "dynamic shared memory"),
    program("residue", "residues", "static shared memory"),
    program("residue", "residues", "local memory"),
    program("residue", "residues", "registers"),
    program("residue", "residues", "global memory"),
    protocol(
        "forged handles",
        "numbers of streams, events, kernels",
        forged::numbers,
    ),
    protocol(
        "forged handles",
        "addresses of the neighbour",
        forged::addresses,
    ),
    protocol("fuzzed messages", "mutated sessions", fuzz::sessions),
    protocol(
        "fuzzed messages",
        "bytes that are no message",
        fuzz::garbage,
    ),
    protocol("shared-memory rings", "corrupted rings", rings::corrupted),
    protocol("shared-memory rings", "pages that are gone", rings::punched),
    killed("in copies", "copies"),
    killed("in launches", "launches"),
    killed("in loading of modules", "modules"),
    killed("in allocations", "allocations"),
    killed("in endless kernels", "endless kernels"),
    killed("in waits for endless kernels", "waits"),
    killed("in launches of graphs", "graphs"),
    killed("in resets", "resets"),
    killed("in printing", "printing"),
    protocol("kill -9", "in half a message", rings::half_a_message),
    protocol("exhaustion", "memory", exhaustion::memory),
    protocol("exhaustion", "streams", exhaustion::streams),
    protocol("exhaustion", "events", exhaustion::events),
    protocol("exhaustion", "modules", exhaustion::modules),
    protocol("exhaustion", "code", exhaustion::code),
    protocol("exhaustion", "tenants", exhaustion::tenants),
    protocol("exhaustion", "connections", exhaustion::connections),
    protocol("exhaustion", "descriptors", exhaustion::descriptors),
    protocol(
        "exhaustion",
        "replies that nobody reads",
        exhaustion::unread,
    ),
];
