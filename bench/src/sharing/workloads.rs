//! Which programs share the device: in kind those of Guardian's evaluation
//! (Middleware 2024, table 4), two to six at a time, equal and mixed.

/// Programs that start together.
pub struct Workload {
    /// The paper's letter.
    pub name: &'static str,
    /// What each process does, and how many do.
    pub programs: &'static [(&'static str, usize)],
}

impl Workload {
    /// What each process does.
    pub fn processes(&self) -> impl Iterator<Item = &'static str> + use<> {
        let programs = self.programs.iter();
        programs.flat_map(|(work, count)| std::iter::repeat_n(*work, *count))
    }

    /// `2 train, gather`.
    pub fn describe(&self) -> String {
        let programs = self.programs.iter().map(|(work, count)| match count {
            1 => (*work).to_owned(),
            count => format!("{count} {work}"),
        });
        programs.collect::<Vec<_>>().join(", ")
    }
}

/// All workloads. Small networks become `train`, larger ones `gather` and
/// `memory`, gaussian `launch`, lavamd `compute`, hotspot `memory`, particle
/// `gather`.
pub const WORKLOADS: &[Workload] = &[
    of("A", &[("train", 2)]),
    of("B", &[("train", 4)]),
    of("C", &[("memory", 2)]),
    of("D", &[("memory", 4)]),
    of("E", &[("launch", 2)]),
    of("F", &[("launch", 4)]),
    of("G", &[("compute", 2)]),
    of("H", &[("compute", 4)]),
    of("I", &[("train", 1), ("gather", 1)]),
    of("J", &[("gather", 1), ("memory", 1)]),
    of("K", &[("train", 2), ("gather", 1), ("memory", 2)]),
    of("L", &[("train", 3), ("gather", 1), ("memory", 2)]),
    of("M", &[("memory", 1), ("launch", 1)]),
    of("N", &[("launch", 1), ("compute", 1)]),
    of("O", &[("gather", 1), ("compute", 1)]),
    of(
        "P",
        &[("launch", 1), ("memory", 1), ("compute", 1), ("gather", 1)],
    ),
];

const fn of(name: &'static str, programs: &'static [(&'static str, usize)]) -> Workload {
    Workload { name, programs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_have_two_to_six_processes() {
        let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        assert_eq!(names.concat(), "ABCDEFGHIJKLMNOP");
        for workload in WORKLOADS {
            let processes: Vec<&str> = workload.processes().collect();
            assert!((2..=6).contains(&processes.len()), "{}", workload.name);
        }
        assert_eq!(WORKLOADS[10].describe(), "2 train, gather, 2 memory");
    }
}
