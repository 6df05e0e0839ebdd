//! Which accesses are checked against their bounds, if not all, and
//! to measure what each costs.

use crate::settings::form::{Flags, Form, flags};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Which accesses are checked against their bounds. By default, all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Checked {
    /// To global memory, and by pointers of which it is not known before the
    /// kernel runs where they point to.
    pub global: bool,
    /// To shared memory.
    pub shared: bool,
    /// To local memory.
    pub local: bool,
    /// To constants.
    pub constant: bool,
    /// To parameters of kernels.
    pub parameter: bool,
    /// Check accesses to array fields against the field, if debug information
    /// describes it. Off, they are checked against the object that contains it.
    pub fields: bool,
    /// Leave out accesses that only read.
    pub no_reads: bool,
    /// Leave out accesses that write, atomic ones among them.
    pub no_writes: bool,
}

impl Checked {
    /// None.
    pub const NONE: Checked = Checked {
        global: false,
        shared: false,
        local: false,
        constant: false,
        parameter: false,
        fields: false,
        no_reads: false,
        no_writes: false,
    };
}

impl Checked {
    /// All.
    pub const ALL: Checked = Checked {
        global: true,
        shared: true,
        local: true,
        constant: true,
        parameter: true,
        fields: true,
        no_reads: false,
        no_writes: false,
    };

    /// `all`, or names separated by commas.
    pub(crate) const FORM: Flags<Checked> = Flags {
        none: Checked::NONE,
        all: Some(("all", Checked::ALL)),
        flags: flags!(
            global, shared, local, constant, parameter, fields;
            less no_reads = "no-reads", no_writes = "no-writes"
        ),
    };
}

impl FromStr for Checked {
    type Err = ();

    /// `all`, or names separated by commas.
    fn from_str(text: &str) -> Result<Checked, ()> {
        Checked::FORM.parse(text).ok_or(())
    }
}

impl Default for Checked {
    fn default() -> Checked {
        Checked::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_added_up_and_others_are_refused() {
        assert_eq!("all".parse(), Ok(Checked::default()));
        assert_eq!(
            "global, local".parse(),
            Ok(Checked {
                global: true,
                local: true,
                ..Checked::NONE
            })
        );
        let writes = Checked {
            no_reads: true,
            ..Checked::ALL
        };
        for list in ["all,no-reads", "no-reads, all", "no-reads"] {
            assert_eq!(list.parse(), Ok(writes));
        }
        let text = Checked::FORM.text(&writes).unwrap();
        assert_eq!(text.parse(), Ok(writes), "{text}");
        assert_eq!("".parse::<Checked>(), Err(()));
        assert_eq!("global,texture".parse::<Checked>(), Err(()));
    }
}
