//! File names that differ by process: `%p`, `%q{VAR}`, `%%`.

/// Expands `%p` to the process id, `%q{VAR}` to an environment variable (empty
/// if unset) and `%%` to a percent sign, as compute-sanitizer's `--log-file`.
///
/// # Errors
///
/// Any other use of `%`; the text says what is allowed.
pub fn expand_file_name(
    pattern: &str,
    pid: u32,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let help = || format!("`{pattern}`: after % only p, q{{VAR}} and % are known");
    let mut name = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('%') {
        name.push_str(before);
        rest = if let Some(after) = after.strip_prefix('p') {
            name.push_str(&pid.to_string());
            after
        } else if let Some(after) = after.strip_prefix('%') {
            name.push('%');
            after
        } else if let Some((key, after)) = after
            .strip_prefix("q{")
            .and_then(|after| after.split_once('}'))
        {
            name.push_str(&variable(key).unwrap_or_default());
            after
        } else {
            return Err(help());
        };
    }
    name.push_str(rest);
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::expand_file_name;

    #[test]
    fn process_and_environment_are_filled_in() {
        let rank = |key: &str| (key == "RANK").then(|| "3".to_string());
        assert_eq!(
            expand_file_name("a-%p-%q{RANK}%q{NO}.%%", 7, rank),
            Ok("a-7-3.%".into())
        );
        for bad in ["%", "%x", "%q{RANK", "%qRANK"] {
            assert!(expand_file_name(bad, 7, rank).is_err(), "{bad}");
        }
    }
}
