//! Graphs of devices that keep them themselves: in which order their nodes are executed,
//! and how they depend on each other.

use crate::sys::CUgraphInstantiate_flags as Flags;
use std::collections::BTreeSet;

/// All flags that a graph can be instantiated with.
const FLAGS: u32 = Flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0
    | Flags::CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD.0
    | Flags::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.0
    | Flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0;

/// Whether a graph can be instantiated with these flags.
pub fn are_flags(flags: u64) -> bool {
    flags & !u64::from(FLAGS) == 0
}

/// Whether a launch frees what the launch before has allocated and nobody has freed.
pub fn frees_on_launch(flags: u64) -> bool {
    flags & u64::from(Flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0) != 0
}

/// A node of a graph, by its position among all that the graph has had.
pub trait Node {
    /// False once it is destroyed: positions of the others do not move.
    fn is_alive(&self) -> bool;

    /// The positions of those that it comes behind.
    fn after(&self) -> &BTreeSet<usize>;
}

/// How a node stands among the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The places of those that it comes behind, in the order of execution.
    after: BTreeSet<usize>,
    /// The nodes of its child graph.
    inside: Vec<Shape>,
}

/// Positions of live nodes in an order that respects the edges; `None` if these form a
/// cycle.
pub fn order(nodes: &[impl Node]) -> Option<Vec<usize>> {
    let mut is_done = vec![false; nodes.len()];
    let mut order = Vec::new();
    let mut left = nodes.iter().filter(|node| node.is_alive()).count();
    while left > 0 {
        let before = left;
        for (index, node) in nodes.iter().enumerate() {
            let is_over = |after: &usize| is_done[*after] || !nodes[*after].is_alive();
            if node.is_alive() && !is_done[index] && node.after().iter().all(is_over) {
                is_done[index] = true;
                left -= 1;
                order.push(index);
            }
        }
        if left == before {
            return None;
        }
    }
    Some(order)
}

/// How live nodes stand among each other, in the order of execution; `None` if there is
/// a cycle. `inside` gives the shape of a node's child graph, which is empty where it has
/// none.
pub fn shape<N: Node>(
    nodes: &[N],
    inside: impl Fn(&N) -> Option<Vec<Shape>>,
) -> Option<Vec<Shape>> {
    let order = order(nodes)?;
    let place = |index: &usize| order.iter().position(|other| other == index);
    let shape = |index: &usize| {
        let node = &nodes[*index];
        Some(Shape {
            after: node.after().iter().filter_map(place).collect(),
            inside: inside(node)?,
        })
    };
    order.iter().map(shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known(bool, BTreeSet<usize>);

    impl Node for Known {
        fn is_alive(&self) -> bool {
            self.0
        }

        fn after(&self) -> &BTreeSet<usize> {
            &self.1
        }
    }

    fn graph(nodes: &[(bool, &[usize])]) -> Vec<Known> {
        let node = |(is_alive, after): &(bool, &[usize])| {
            Known(*is_alive, after.iter().copied().collect())
        };
        nodes.iter().map(node).collect()
    }

    fn alone(nodes: &[Known]) -> Option<Vec<Shape>> {
        shape(nodes, |_| Some(Vec::new()))
    }

    #[test]
    fn the_order_respects_edges_and_leaves_out_what_was_destroyed() {
        let nodes = graph(&[(true, &[2]), (false, &[]), (true, &[1]), (true, &[0, 2])]);
        assert_eq!(order(&nodes), Some(vec![2, 0, 3]));
        assert_eq!(order(&graph(&[(true, &[1]), (true, &[0])])), None);
        assert_eq!(order(&graph(&[])), Some(vec![]));
    }

    #[test]
    fn shapes_do_not_depend_on_positions() {
        let chain = alone(&graph(&[(true, &[]), (true, &[0])]));
        let later = alone(&graph(&[(false, &[]), (true, &[]), (true, &[0, 1])]));
        let apart = alone(&graph(&[(true, &[]), (true, &[])]));
        assert!(chain.is_some() && chain == later && chain != apart);
        let with_child = shape(&graph(&[(true, &[])]), |_| chain.clone());
        assert!(with_child.is_some() && with_child != alone(&graph(&[(true, &[])])));
    }

    #[test]
    fn flags_are_those_of_cuda() {
        assert!(are_flags(0) && are_flags(0xf) && !are_flags(0x10) && !are_flags(1 << 32));
        assert!(frees_on_launch(1) && frees_on_launch(9) && !frees_on_launch(0xe));
    }
}
