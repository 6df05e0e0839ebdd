//! Shadow memory with blocks of 128 bytes. (A process has one encoding.)

mod support;

use model::ShadowLoads;
use model::layout::shadow::Encoding;

#[test]
fn loads_get_what_the_oracle_says() {
    support::shadowed::loads_get_what_the_oracle_says(Encoding::Block128, ShadowLoads::Auto);
}
