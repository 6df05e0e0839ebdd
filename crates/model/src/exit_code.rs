//! Exit codes. They are API: scripts depend on them.

/// One exit code, for help texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode {
    /// The number.
    pub code: u8,
    /// The meaning for the run.
    pub meaning: &'static str,
}

macro_rules! exit_codes {
    ($( $(#[doc = $meaning:literal])+ $name:ident = $code:literal; )+) => {
        $( $(#[doc = $meaning])+ pub const $name: u8 = $code; )+

        /// The exit codes that Ringfence itself chooses.
        pub const EXIT_CODES: &[ExitCode] = &[
            $( ExitCode { code: $name, meaning: concat!($($meaning),+).trim_ascii() }, )+
        ];
    };
}

exit_codes! {
    /// There are findings. `--error-exitcode CODE` chooses another code; 0
    /// passes the program's own code on.
    FINDINGS = 98;
    /// The program ran, and nothing was checked: no kernel launch and, in a
    /// program without kernels, no copy, memset or free.
    NOTHING_CHECKED = 97;
    /// Ringfence could not do what was asked, or the CPU device lacks what the
    /// program needs. A message says which.
    FAILED = 96;
}

/// Added to the number of the signal that killed the program, as shells do.
pub const SIGNAL: u8 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_one_meaning() {
        for (index, entry) in EXIT_CODES.iter().enumerate() {
            assert!(entry.meaning.ends_with('.'), "{}", entry.meaning);
            assert!(!entry.meaning.contains("  "), "{}", entry.meaning);
            assert!(entry.code < SIGNAL);
            let rest = &EXIT_CODES[index + 1..];
            assert!(rest.iter().all(|other| other.code != entry.code));
        }
    }
}
