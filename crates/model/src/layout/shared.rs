//! The memory layout of structs that host and device share. A struct has one
//! declaration, in Rust. `device/layout.cuh`, which the device's sources
//! include, is generated from the description in this module.

/// A type that has the same bytes on host and device.
pub trait Shared {
    /// How C declares a variable of this name and type.
    fn declaration(name: &str) -> String;

    /// Writes the value to bytes, as many as its type has.
    fn put(&self, bytes: &mut [u8]);
}

macro_rules! number {
    ($($type:ident)+) => {
        $( impl Shared for $type {
            fn declaration(name: &str) -> String {
                format!(concat!(stringify!($type), " {}"), name)
            }

            fn put(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        } )+
    };
}

number!(u32 i32 u64);

impl<T: Shared, const N: usize> Shared for [T; N] {
    fn declaration(name: &str) -> String {
        T::declaration(&format!("{name}[{N}]"))
    }

    fn put(&self, bytes: &mut [u8]) {
        for (value, bytes) in self.iter().zip(bytes.chunks_exact_mut(size_of::<T>())) {
            value.put(bytes);
        }
    }
}

/// A struct, for the generator of its declaration in C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Its name.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// Its fields, in order, with no byte between them.
    pub fields: Vec<Field>,
}

/// A field of a [`Structure`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its first byte.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
    /// How C declares it.
    pub declaration: String,
}

/// Declares structs that host and device share.
macro_rules! shared {
    ($(
        $(#[$attribute:meta])*
        pub struct $name:ident {
            $( $(#[$field_attribute:meta])* pub $field:ident: $type:ty, )+
        }
    )+) => { $(
        $(#[$attribute])*
        #[repr(C)]
        pub struct $name {
            $( $(#[$field_attribute])* pub $field: $type, )+
        }

        impl $name {
            /// The struct's layout in memory.
            pub fn structure() -> $crate::layout::shared::Structure {
                $crate::layout::shared::Structure {
                    name: stringify!($name),
                    size: size_of::<$name>(),
                    fields: vec![$( $crate::layout::shared::Field {
                        name: stringify!($field),
                        offset: std::mem::offset_of!($name, $field),
                        size: size_of::<$type>(),
                        declaration: <$type as $crate::layout::shared::Shared>::declaration(
                            stringify!($field),
                        ),
                    } ),+],
                }
            }

            /// Its bytes, as the device reads them.
            pub fn bytes(&self) -> [u8; size_of::<$name>()] {
                let mut bytes = [0; size_of::<$name>()];
                $crate::layout::shared::Shared::put(self, &mut bytes);
                bytes
            }
        }

        impl $crate::layout::shared::Shared for $name {
            fn declaration(name: &str) -> String {
                format!(concat!(stringify!($name), " {}"), name)
            }

            fn put(&self, bytes: &mut [u8]) {
                $(
                    let start = std::mem::offset_of!($name, $field);
                    self.$field.put(&mut bytes[start..start + size_of::<$type>()]);
                )+
            }
        }

        const _: () = assert!(
            size_of::<$name>()
                == (0 $( + size_of::<$type>() )+).next_multiple_of(align_of::<$name>()),
            "fields must follow each other without a gap"
        );
    )+ };
}
pub(super) use shared;

#[cfg(test)]
mod tests {
    shared! {
    /// One of each.
    pub struct Example {
        /// A number.
        pub signed: i32,
        /// A table.
        pub table: [[u32; 3]; 2],
        /// Another number.
        pub number: u32,
        /// Others.
        pub pairs: [Pair; 2],
    }

    /// Two numbers.
    pub struct Pair {
        /// One.
        pub one: u64,
        /// Two.
        pub two: u64,
    }
    }

    #[test]
    fn the_fields_of_a_structure_are_declared_as_in_c() {
        let structure = Example::structure();
        assert_eq!((structure.name, structure.size), ("Example", 64));
        let fields: Vec<(usize, usize, &str)> = structure
            .fields
            .iter()
            .map(|field| (field.offset, field.size, field.declaration.as_str()))
            .collect();
        assert_eq!(
            fields,
            [
                (0, 4, "i32 signed"),
                (4, 24, "u32 table[2][3]"),
                (28, 4, "u32 number"),
                (32, 32, "Pair pairs[2]"),
            ]
        );
    }

    #[test]
    fn bytes_are_those_of_memory() {
        let example = Example {
            signed: -2,
            table: [[1, 2, 3], [4, 5, 6]],
            number: 7,
            pairs: [Pair { one: 8, two: 9 }, Pair { one: 10, two: 11 }],
        };
        let words = example.bytes();
        let (words, _) = words.as_chunks::<4>();
        let words: Vec<i32> = words.iter().map(|word| i32::from_le_bytes(*word)).collect();
        assert_eq!(words, [-2, 1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 0, 10, 0, 11, 0]);
        assert_eq!(example.pairs[1].bytes()[..8], 10u64.to_le_bytes());
        assert_eq!(Pair::structure().fields[1].offset, 8);
    }
}
