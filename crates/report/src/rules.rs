//! What each rule means, for `ringfence explain`.

use model::Rule;

/// The explanation of one rule.
#[derive(Clone, Copy, Debug)]
pub struct RuleHelp {
    /// Which rule.
    pub rule: Rule,
    /// One line.
    pub title: &'static str,
    /// What it means, what usually causes it, what to do.
    pub text: &'static str,
}

const RULES: &[RuleHelp] = &[
    RuleHelp {
        rule: Rule::GlobalOutOfBoundsRead,
        title: "a read outside the allocation that the pointer came from",
        text: "A kernel read bytes of global memory that do not belong to the buffer which the pointer was\n\
               derived from. The buffer is the one that was passed to the kernel, loaded from memory or named\n\
               as a variable; it does not matter whether the bytes read belong to another live buffer.\n\
               \n\
               Usual causes: a missing `if (i < n)`, a grid rounded up to whole blocks, `<=` for `<`, a halo\n\
               read without padding, a vector load (float4) on a length that is not a multiple of four.\n\
               \n\
               In this run the read was given zero instead of the memory's content.",
    },
    RuleHelp {
        rule: Rule::GlobalOutOfBoundsWrite,
        title: "a write outside the allocation that the pointer came from",
        text: "A kernel wrote bytes of global memory that do not belong to the buffer which the pointer was\n\
               derived from. Natively this corrupts whatever lies there, often silently.\n\
               \n\
               Usual causes: a missing `if (i < n)`, a grid rounded up to whole blocks, `<=` for `<`, an\n\
               output buffer that is smaller than the input, an index computed in too narrow a type.\n\
               \n\
               In this run the write went to a sink and changed no memory of the program.",
    },
    RuleHelp {
        rule: Rule::GlobalOutOfBoundsAtomic,
        title: "an atomic outside the allocation that the pointer came from",
        text: "A kernel did an atomic operation on global memory that does not belong to the buffer which the\n\
               pointer was derived from.\n\
               \n\
               Usual causes: a histogram bin that the data exceeds, a counter beside its array, a missing\n\
               bounds check on an index read from memory.\n\
               \n\
               In this run the operation went to a sink; the value that it returned is meaningless.",
    },
    RuleHelp {
        rule: Rule::InvalidPointer,
        title: "an access through a pointer that points into no allocation",
        text: "A kernel used a pointer that belongs to no live allocation: null, uninitialised, already freed\n\
               (the report then says where), cut to 32 bits, or the address of ordinary host memory that the\n\
               device was never given.\n\
               \n\
               Usual causes: passing a host pointer instead of the device one, an allocation whose error code\n\
               was not checked, a buffer freed while a kernel or a structure still refers to it.\n\
               \n\
               Memory that the program gets through calls which Ringfence does not hook is asked of the\n\
               driver; if the driver knows no such allocation either, the pointer is reported.",
    },
];

/// All rules, in the order of [`Rule`].
pub fn rules() -> &'static [RuleHelp] {
    RULES
}

/// The explanation of a rule by its id.
pub fn rule_help(id: &str) -> Option<&'static RuleHelp> {
    RULES.iter().find(|help| help.rule.id() == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_explained_under_its_id() {
        for rule in [
            Rule::GlobalOutOfBoundsRead,
            Rule::GlobalOutOfBoundsWrite,
            Rule::GlobalOutOfBoundsAtomic,
            Rule::InvalidPointer,
        ] {
            let help = rule_help(rule.id()).expect("explained");
            assert_eq!(help.rule, rule);
            assert!(!help.text.is_empty());
        }
        assert!(rule_help("no-such-rule").is_none());
    }
}
