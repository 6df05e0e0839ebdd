//! Shadow memory with blocks of 8 bytes. (A process has one encoding.)

mod support;

use model::layout::shadow::Encoding;

#[test]
fn loads_get_what_the_oracle_says() {
    support::shadowed::loads_get_what_the_oracle_says(Encoding::Block8);
}
