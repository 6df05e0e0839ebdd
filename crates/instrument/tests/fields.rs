//! A `-G` build with fields of structs: what the pass writes is what the
//! verifier accepts.

use instrument::{Options, instrument, verify};
use model::AllocationKind;

const TEXT: &str = include_str!("../../analysis/tests/fields.ptx");

#[test]
fn checks_of_fields_pass_the_verifier() {
    let instrumented = instrument(TEXT, &Options::default()).expect("instrumented");
    assert_eq!(
        verify(TEXT, &instrumented.text, &instrumented.entries),
        Ok(())
    );
    let fields = instrumented
        .sites
        .iter()
        .filter_map(|site| site.object.as_deref())
        .filter(|object| object.kind == AllocationKind::Region)
        .count();
    assert!(fields >= 8, "{fields}");
}
