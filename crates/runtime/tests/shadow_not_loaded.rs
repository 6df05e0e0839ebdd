//! Checks that load no shadow memory, for measurements. (A process has one way of checking.)

mod support;

use model::ShadowLoads;
use model::layout::shadow::Encoding;

#[test]
fn nothing_is_found() {
    support::shadowed::loads_get_what_the_oracle_says(Encoding::Block256, ShadowLoads::Never);
}
