//! Names as the program's author wrote them.

use cpp_demangle::{DemangleOptions, Symbol};

/// The C++ name behind a mangled kernel or function name; the name itself if
/// it is not mangled or not well-formed.
pub fn demangle(name: &str) -> String {
    if !name.starts_with("_Z") {
        return name.to_string();
    }
    // A name may nest without bound: the parser limits its own recursion and
    // answers with an error, which leaves the name as it is.
    Symbol::new(name)
        .ok()
        .and_then(|symbol| symbol.demangle_with_options(&DemangleOptions::new()).ok())
        .unwrap_or_else(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn kernels_are_shown_as_written() {
        assert_eq!(demangle("_Z5scalePfi"), "scale(float*, int)");
        assert_eq!(demangle("plain_c"), "plain_c");
        assert_eq!(demangle("_Zgarbage"), "_Zgarbage");
    }
}
