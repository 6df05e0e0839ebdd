//! How messages of gRPC interfaces are declared.

/// Declares messages: number of a field, its name, its type for `prost`, and its
/// type in Rust.
macro_rules! messages {
    ($($(#[$doc:meta])* $message:ident {
        $($(#[$field_doc:meta])* $number:literal $field:ident ($($kind:tt)*): $type:ty,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, prost::Message)]
            pub struct $message {
                $(
                    $(#[$field_doc])*
                    #[prost($($kind)*, tag = $number)]
                    pub $field: $type,
                )*
            }
        )*
    };
}

pub(crate) use messages;
