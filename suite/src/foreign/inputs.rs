//! Inputs that programs of Rodinia read and that a collection does not hold: made up, of
//! the same form, and of about the same size (kmeans' has a twelfth of the points:
//! kmeans computes on the host for longer than on the device).
//!
//! (HeCBench has them in a store of its own. GASan's paper measures these programs.)

use super::collection::Program;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A file that a program reads.
struct Input {
    /// The program.
    program: &'static str,
    /// From its folder.
    path: &'static str,
    write: fn(&mut dyn Write) -> std::io::Result<()>,
}

const INPUTS: [Input; 11] = [
    input("b+tree-cuda", "../data/b+tree/mil.txt", keys),
    input("b+tree-cuda", "../data/b+tree/command.txt", commands),
    input("bfs-cuda", "../data/bfs/graph1MW_6.txt", graph),
    input("cfd-cuda", "../data/cfd/fvcorr.domn.097K", elements),
    input("hotspot-cuda", "../data/hotspot/temp_512", temperatures),
    input("hotspot-cuda", "../data/hotspot/power_512", powers),
    input("hotspot3D-cuda", "../data/hotspot3D/temp_512x8", |out| {
        (0..8).try_for_each(|_| temperatures(out))
    }),
    input("hotspot3D-cuda", "../data/hotspot3D/power_512x8", |out| {
        (0..8).try_for_each(|_| powers(out))
    }),
    input("kmeans-cuda", "../data/kmeans/kdd_cup", points),
    input("nn-cuda", "../data/nn/cane4_0.db", hurricanes),
    input("nn-cuda", "filelist.txt", |out| {
        writeln!(out, "../data/nn/cane4_0.db")
    }),
];

const fn input(
    program: &'static str,
    path: &'static str,
    write: fn(&mut dyn Write) -> std::io::Result<()>,
) -> Input {
    Input {
        program,
        path,
        write,
    }
}

fn of<'x>(program: &'x Program) -> impl Iterator<Item = &'static Input> + 'x {
    INPUTS
        .iter()
        .filter(move |input| input.program == program.name)
}

/// Whether a file of a program can be made.
pub fn is_known(program: &Program, path: &str) -> bool {
    of(program).any(|input| input.path == path)
}

/// Makes the inputs of a program that are not in its folder.
///
/// # Errors
///
/// They cannot be written.
pub fn make(program: &Program, folder: &Path) -> Result<()> {
    // All of them: one may be a list of the names of others.
    let is_missing = of(program).any(|input| !folder.join(input.path).exists());
    for input in of(program).filter(|_| is_missing) {
        let path = folder.join(input.path);
        let write = || -> std::io::Result<()> {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let mut file = BufWriter::new(File::create(&path)?);
            (input.write)(&mut file)?;
            file.flush()
        };
        write().with_context(|| format!("failed to make {}", path.display()))?;
    }
    Ok(())
}

/// Numbers below a limit, the same in each run.
fn numbers(limit: u32) -> impl Iterator<Item = u32> {
    let mut state = 1u64;
    std::iter::from_fn(move || {
        // Knuth, MMIX.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Some(((state >> 33) % u64::from(limit)) as u32)
    })
}

/// Nodes of the graph, each with so many edges on average.
const NODES: u32 = 1_000_000;
const EDGES: u32 = 6;

/// First and number of the edges of each node, the source, and the edges with their costs.
fn graph(out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{NODES}")?;
    let mut edges = 0;
    for more in numbers(2 * EDGES - 1).take(NODES as usize) {
        writeln!(out, "{edges} {}", more + 1)?;
        edges += more + 1;
    }
    writeln!(out, "\n0\n\n{edges}")?;
    let mut ends = numbers(NODES).take(edges as usize);
    ends.try_for_each(|end| writeln!(out, "{end} {}", end % 10 + 1))
}

/// Points of 34 features, behind a number each, in a few places: where each has its own,
/// k-means takes hundreds of iterations to converge.
fn points(out: &mut dyn Write) -> std::io::Result<()> {
    let features: Vec<u32> = numbers(1000).take(20 * 34).collect();
    for (point, place) in (0..40_000).zip(features.chunks(34).cycle()) {
        write!(out, "{point}")?;
        for feature in place {
            write!(out, " {}", f64::from(*feature) / 10.0)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Elements of a grid: an area, and four neighbours, counted from 1, with the normal of each
/// side; at the edge there is none.
fn elements(out: &mut dyn Write) -> std::io::Result<()> {
    const ROW: i32 = 311;
    const ALL: i32 = ROW * 312;
    writeln!(out, "{ALL}")?;
    for element in 0..ALL {
        write!(out, "1.0")?;
        let column = element % ROW;
        let sides = [
            (-1, column > 0, "-0.01 0 0"),
            (1, column + 1 < ROW, "0.01 0 0"),
            (-ROW, element >= ROW, "0 -0.01 0"),
            (ROW, element + ROW < ALL, "0 0.01 0"),
        ];
        for (to, is_inside, normal) in sides {
            let neighbour = if is_inside { element + to + 1 } else { -1 };
            write!(out, " {neighbour} {normal}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn temperatures(out: &mut dyn Write) -> std::io::Result<()> {
    grid(out, |number| 320.0 + f64::from(number) / 50.0)
}

fn powers(out: &mut dyn Write) -> std::io::Result<()> {
    grid(out, |number| f64::from(number) / 1e6)
}

/// A line for each of 512 x 512 cells.
fn grid(out: &mut dyn Write, value: fn(u32) -> f64) -> std::io::Result<()> {
    let mut cells = numbers(1000).take(512 * 512);
    cells.try_for_each(|number| writeln!(out, "{:.6}", value(number)))
}

/// Records of 48 characters, with latitude and longitude at 28 and 33.
fn hurricanes(out: &mut dyn Write) -> std::io::Result<()> {
    let degrees = numbers(3600).map(|tenths| f64::from(tenths) / 10.0);
    for (record, latitude) in (0..42_764).zip(degrees.step_by(2)) {
        let (latitude, longitude) = (latitude / 4.0, 360.0 - latitude);
        writeln!(
            out,
            "{:<28}{latitude:5.1}{longitude:5.1}{:>10}",
            format!("1980 1 1 0 {record}"),
            record % 100,
        )?;
    }
    Ok(())
}

/// How many keys, and the keys.
fn keys(out: &mut dyn Write) -> std::io::Result<()> {
    const KEYS: u32 = 1_000_000;
    writeln!(out, "{KEYS}")?;
    let mut keys = numbers(KEYS).take(KEYS as usize);
    keys.try_for_each(|key| writeln!(out, "{key}"))
}

/// Finds 10,000 keys, and 6,000 ranges of 3,000. (A zero ends them: the program does not
/// end what it has read, and goes on with what lies behind it in memory.)
fn commands(out: &mut dyn Write) -> std::io::Result<()> {
    out.write_all(b"j 6000 3000\nk 10000\n\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_have_the_form_that_programs_read() {
        let text = |path: &str| {
            let input = INPUTS.iter().find(|input| input.path.ends_with(path));
            let mut text = Vec::new();
            (input.unwrap().write)(&mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        let graph = text("graph1MW_6.txt");
        let words: Vec<u32> = graph
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        let nodes = words[0] as usize;
        let (first, count) = (words[2 * nodes - 1], words[2 * nodes]);
        let edges = words[2 * nodes + 2];
        assert_eq!(first + count, edges);
        assert_eq!(words.len(), 2 * nodes + 3 + 2 * edges as usize);
        let points = text("kdd_cup");
        assert!(points.lines().all(|line| line.split(' ').count() == 35));
        assert!(points.lines().all(|line| line.len() < 1023));
        let mesh = text("fvcorr.domn.097K");
        let count: usize = mesh.lines().next().unwrap().parse().unwrap();
        assert_eq!(mesh.lines().count(), 1 + count);
        let mut elements = mesh.lines().skip(1).map(|line| line.split(' '));
        assert!(elements.all(|element| element.count() == 1 + 4 * 4));
        let storms = text("cane4_0.db");
        assert!(storms.lines().all(|line| line.len() == 48));
        let place = |line: &str, at: usize| line[at..at + 5].trim().parse::<f64>().unwrap();
        assert!(storms.lines().all(|line| place(line, 28) <= 90.0));
        assert!(storms.lines().all(|line| place(line, 33) <= 360.0));
        assert_eq!(text("temp_512x8").lines().count(), 512 * 512 * 8);
    }
}
