//! The names, the constants and the fields of the table of functions are three
//! lists: what reads or fills the table by position needs them in one order.

use driver::{Api, COUNT, FUNCTIONS, index};

macro_rules! places {
    ($($function:ident,)*) => {
        /// Each function's name, its constant, and where its field stands.
        const PLACES: [(&str, usize, usize); COUNT] = [
            $((stringify!($function), index::$function, std::mem::offset_of!(Api, $function)),)*
        ];
    };
}

driver::for_each_function!(places);

#[test]
fn every_field_stands_where_its_name_does() {
    for (position, (name, constant, offset)) in PLACES.into_iter().enumerate() {
        assert_eq!(FUNCTIONS[position], name);
        assert_eq!(constant, position, "{name}");
        assert_eq!(offset, position * size_of::<usize>(), "{name}");
    }
}
