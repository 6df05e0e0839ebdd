//! Which instructions were executed whenever another one is: the control flow of
//! a function, and its dominators.
//!
//! Nodes are pieces of straight code. A branch leads to every label of its name,
//! whatever scope it is in, and a jump whose table is not known to every label:
//! paths that do not exist cost precision, and no safety.

use ptx::{Function, Instruction, Mnemonic, OperandKind, Statement};
use rustc_hash::FxHashMap;

/// The dominators of a function. Instructions are numbered in the order of the
/// text.
#[derive(Clone, Debug, Default)]
pub(super) struct Dominance {
    /// The node of each instruction.
    nodes: Vec<u32>,
    /// For each node, when a walk over the dominator tree enters and leaves it;
    /// `None` for a node that no path leads to. Empty if the dominators are not known.
    spans: Vec<Option<(u32, u32)>>,
}

impl Dominance {
    /// Of a function. Where that would take time that is not in proportion to its
    /// text, no instruction is known to be executed before one of another node.
    pub(super) fn of(function: &Function<'_>) -> Dominance {
        let (graph, nodes) = Graph::of(function);
        let parents = graph.dominators();
        let spans = parents.map(|parents| spans(&parents)).unwrap_or_default();
        Dominance { nodes, spans }
    }

    /// Whether every path to the instruction `later` executes `earlier` before; also
    /// if there is no path.
    pub(super) fn is_before(&self, earlier: u32, later: u32) -> bool {
        let node = |number: u32| self.nodes.get(number as usize).copied();
        let (Some(above), Some(below)) = (node(earlier), node(later)) else {
            return false;
        };
        if above == below {
            return earlier < later;
        }
        let span = |node: u32| self.spans.get(node as usize).copied();
        match (span(above), span(below)) {
            (Some(Some((enter, leave))), Some(Some((at, _)))) => enter < at && at < leave,
            // There is no path, as behind a failed assertion.
            (Some(_), Some(None)) => true,
            _ => false,
        }
    }
}

/// The parent of each node in the dominator tree of a graph that begins at node 0;
/// `None` where that would take time that is not in proportion to the edges.
pub(super) fn parents(next: Vec<Vec<u32>>) -> Option<Vec<Option<u32>>> {
    Graph { next }.dominators()
}

/// Edges between nodes; node 0 is where the function begins.
#[derive(Default)]
struct Graph {
    next: Vec<Vec<u32>>,
}

impl Graph {
    fn node(&mut self) -> u32 {
        self.next.push(Vec::new());
        self.next.len() as u32 - 1
    }

    /// The graph, and the node of each instruction.
    fn of<'a>(function: &Function<'a>) -> (Graph, Vec<u32>) {
        let mut graph = Graph::default();
        let mut here = graph.node();
        // All labels; and for each name, those of this name. Tables have nodes of
        // their own, so that edges are as many as names in the text.
        let anywhere = graph.node();
        let mut labels: FxHashMap<&'a str, u32> = FxHashMap::default();
        let mut tables: FxHashMap<&'a str, u32> = FxHashMap::default();
        let mut nodes = Vec::new();
        for (_, statement) in function.statements() {
            match statement {
                Statement::Label(label) => {
                    let node = graph.node();
                    graph.edge(here, node);
                    let named = graph.named(&mut labels, label.name);
                    graph.edge(named, node);
                    graph.edge(anywhere, node);
                    here = node;
                }
                Statement::Targets(targets) => {
                    let table = graph.named(&mut tables, targets.label);
                    for name in &targets.names {
                        let named = graph.named(&mut labels, name);
                        graph.edge(table, named);
                    }
                }
                Statement::Instruction(instruction) => {
                    nodes.push(here);
                    let Some(operand) = leaves(instruction) else {
                        continue;
                    };
                    let names = match instruction.opcode.mnemonic() {
                        Mnemonic::Bra => Some(&mut labels),
                        Mnemonic::Brx => Some(&mut tables),
                        _ => None,
                    };
                    if let Some(names) = names {
                        let target = match instruction.operands.get(operand).map(|o| &o.kind) {
                            Some(OperandKind::Name(name)) => graph.named(names, name),
                            _ => anywhere,
                        };
                        graph.edge(here, target);
                    }
                    let after = graph.node();
                    if instruction.guard.is_some() {
                        graph.edge(here, after);
                    }
                    here = after;
                }
                _ => {}
            }
        }
        (graph, nodes)
    }

    fn edge(&mut self, from: u32, to: u32) {
        self.next[from as usize].push(to);
    }

    fn named<'a>(&mut self, names: &mut FxHashMap<&'a str, u32>, name: &'a str) -> u32 {
        *names.entry(name).or_insert_with(|| self.node())
    }

    /// The parent of each node in the dominator tree, by the algorithm of Cooper,
    /// Harvey and Kennedy; `None` if that takes too many steps. A node that no
    /// path leads to has no parent, and the first one is its own.
    fn dominators(&self) -> Option<Vec<Option<u32>>> {
        let order = self.order();
        let mut places = vec![None; self.next.len()];
        for (place, node) in order.iter().enumerate() {
            places[*node as usize] = Some(place as u32);
        }
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); order.len()];
        for (place, node) in order.iter().enumerate() {
            for next in &self.next[*node as usize] {
                if let Some(to) = places[*next as usize] {
                    before[to as usize].push(place as u32);
                }
            }
        }
        // By places in the order, which are less for what is above.
        let mut parents: Vec<Option<u32>> = vec![None; order.len()];
        parents[0] = Some(0);
        let edges: usize = before.iter().map(Vec::len).sum();
        let mut steps = 64 * (edges + order.len() + 16);
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for place in 1..order.len() {
                let mut parent: Option<u32> = None;
                for from in &before[place] {
                    if parents[*from as usize].is_none() {
                        continue;
                    }
                    parent = Some(match parent {
                        None => *from,
                        Some(other) => common(&parents, other, *from, &mut steps)?,
                    });
                }
                if parents[place] != parent {
                    parents[place] = parent;
                    is_changed = true;
                }
                steps = steps.checked_sub(1)?;
            }
        }
        let mut out = vec![None; self.next.len()];
        for (place, node) in order.iter().enumerate() {
            out[*node as usize] = parents[place].map(|parent| order[parent as usize]);
        }
        Some(out)
    }

    /// The nodes that paths lead to, each before those that it alone leads to.
    fn order(&self) -> Vec<u32> {
        let mut seen = vec![false; self.next.len()];
        let mut order = Vec::new();
        let mut stack = vec![(0u32, 0usize)];
        seen[0] = true;
        while let Some((node, at)) = stack.last_mut() {
            let node = *node;
            match self.next[node as usize].get(*at) {
                Some(&next) => {
                    *at += 1;
                    if !std::mem::replace(&mut seen[next as usize], true) {
                        stack.push((next, 0));
                    }
                }
                None => {
                    order.push(node);
                    stack.pop();
                }
            }
        }
        order.reverse();
        order
    }
}

/// Of an instruction after which another one than the next may be executed: the
/// operand that says which.
fn leaves(instruction: &Instruction<'_>) -> Option<usize> {
    match instruction.opcode.mnemonic() {
        Mnemonic::Bra => Some(0),
        Mnemonic::Brx => Some(1),
        Mnemonic::Ret | Mnemonic::Exit => Some(0),
        _ => None,
    }
}

/// The closest place above both.
fn common(parents: &[Option<u32>], a: u32, b: u32, steps: &mut usize) -> Option<u32> {
    let (mut a, mut b) = (a, b);
    while a != b {
        *steps = steps.checked_sub(1)?;
        if a > b {
            a = parents[a as usize]?;
        } else {
            b = parents[b as usize]?;
        }
    }
    Some(a)
}

/// When a walk over the tree enters and leaves each node.
fn spans(parents: &[Option<u32>]) -> Vec<Option<(u32, u32)>> {
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); parents.len()];
    for (node, parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) if *parent as usize != node => {
                children[*parent as usize].push(node as u32);
            }
            _ => {}
        }
    }
    let mut spans = vec![None; parents.len()];
    let mut clock = 0;
    let mut stack = vec![(0u32, 0usize)];
    spans[0] = Some((clock, u32::MAX));
    while let Some((node, at)) = stack.last_mut() {
        let node = *node;
        clock += 1;
        match children[node as usize].get(*at) {
            Some(&child) => {
                *at += 1;
                spans[child as usize] = Some((clock, u32::MAX));
                stack.push((child, 0));
            }
            None => {
                if let Some((_, leave)) = &mut spans[node as usize] {
                    *leave = clock;
                }
                stack.pop();
            }
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dominance of a kernel of these statements, in which `N:` are labels.
    fn with(statements: &str, check: impl Fn(&Dominance)) {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.entry k() {{ .reg .pred %p; .reg .b32 %r;\n{statements}\n}}\n"
        );
        let module = ptx::parse(&text).unwrap();
        let function = module.functions().next().unwrap();
        check(&Dominance::of(function));
    }

    #[test]
    fn what_all_paths_execute_is_before() {
        // 0 before all; 1 branches; 2 is skipped by some; 3 joins; 4 leaves.
        let text = "mov.u32 %r, 0;\n@%p bra L;\nmov.u32 %r, 1;\nL: mov.u32 %r, 2;\nret;";
        with(text, |dominance| {
            for later in 1..5 {
                assert!(dominance.is_before(0, later), "{later}");
                assert!(!dominance.is_before(later, 0), "{later}");
            }
            assert!(!dominance.is_before(2, 3));
            assert!(dominance.is_before(3, 4));
            assert!(!dominance.is_before(3, 3));
        });
    }

    #[test]
    fn loops_tables_and_scopes() {
        let text = "bra M;\nL: mov.u32 %r, 1;\nM: mov.u32 %r, 2;\n@%p bra L;\n\
                    t: .branchtargets A, B;\nbrx.idx %r, t;\nA: mov.u32 %r, 3;\nret;\nB: ret;";
        with(text, |dominance| {
            assert!(dominance.is_before(2, 1), "the loop begins at its end");
            assert!(!dominance.is_before(1, 2));
            assert!(dominance.is_before(4, 5) && dominance.is_before(4, 7));
            assert!(!dominance.is_before(5, 7));
        });
        // A label of the same name in another scope may be the one.
        let text = "mov.u32 %r, 0;\nbra L;\n{ L: mov.u32 %r, 1; }\n{ L: mov.u32 %r, 2; }\nret;";
        with(text, |dominance| {
            assert!(!dominance.is_before(2, 3));
            assert!(dominance.is_before(0, 3) && dominance.is_before(0, 4));
        });
        // No path leads behind the first return.
        let text = "mov.u32 %r, 0;\n@%p bra M;\nret;\nmov.u32 %r, 1;\nL: ret;\nM: ret;";
        with(text, |dominance| {
            assert!(dominance.is_before(0, 3) && dominance.is_before(2, 4));
            assert!(!dominance.is_before(3, 5) && !dominance.is_before(4, 5));
        });
    }

    #[test]
    fn the_time_is_in_proportion_to_the_text() {
        let mut text = String::new();
        for number in 0..40_000 {
            text += &format!("L{number}:\n@%p bra L{};\n", number * 7919 % 40_000);
        }
        let start = std::time::Instant::now();
        with(&text, |dominance| {
            assert!(!dominance.is_before(30_000, 20_000));
        });
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}
