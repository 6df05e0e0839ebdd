//! Relations of two operands, as comparisons have them.

use crate::operation::View;
use serde::{Deserialize, Serialize};

/// The relation of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Relation {
    Equal,
    Differs,
    Less(View),
    AtMost(View),
    Greater(View),
    AtLeast(View),
}

impl Relation {
    /// What holds where this does not.
    pub(crate) fn negated(self) -> Relation {
        match self {
            Relation::Equal => Relation::Differs,
            Relation::Differs => Relation::Equal,
            Relation::Less(view) => Relation::AtLeast(view),
            Relation::AtMost(view) => Relation::Greater(view),
            Relation::Greater(view) => Relation::AtMost(view),
            Relation::AtLeast(view) => Relation::Less(view),
        }
    }

    /// The same, with the operands in the other order.
    pub(crate) fn mirrored(self) -> Relation {
        match self {
            Relation::Less(view) => Relation::Greater(view),
            Relation::AtMost(view) => Relation::AtLeast(view),
            Relation::Greater(view) => Relation::Less(view),
            Relation::AtLeast(view) => Relation::AtMost(view),
            same => same,
        }
    }
}
