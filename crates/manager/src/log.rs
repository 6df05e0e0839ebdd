//! Lines for the administrator, as text or as JSON, one object a line.

use serde_json::{Map, Value};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// As text.
    #[default]
    Text,
    /// As JSON objects: `time` (seconds since 1970), `level`, `message`, and what the
    /// line is about.
    Json,
}

static IS_JSON: AtomicBool = AtomicBool::new(false);

/// How this process writes lines from now on.
pub fn set_log_format(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Writes a line to stderr; what that does not take is lost. It may start with
/// `error: ` or `warning: `.
pub fn line(text: &str) {
    about(text, &[]);
}

/// As [`line`], about something: names and values, of which a text shows none.
pub(crate) fn about(text: &str, what: &[(&str, Value)]) {
    let line = match IS_JSON.load(Ordering::Relaxed) {
        true => json(text, what, SystemTime::now()),
        false => format!("ringfence: {text}"),
    };
    let _ = std::io::stderr().write_all((line + "\n").as_bytes());
}

fn json(text: &str, what: &[(&str, Value)], now: SystemTime) -> String {
    let level = ["error", "warning"].into_iter().find_map(|level| {
        let rest = text.strip_prefix(level)?.strip_prefix(": ")?;
        Some((level, rest))
    });
    let (level, message) = level.unwrap_or(("info", text));
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    let time = since.unwrap_or_default().as_millis() as f64 / 1000.0;
    let mut line = Map::new();
    line.insert("time".into(), time.into());
    line.insert("level".into(), level.into());
    line.insert("message".into(), message.into());
    for (name, value) in what {
        line.insert((*name).into(), value.clone());
    }
    Value::Object(line).to_string()
}

/// The text without what a terminal would act on: it comes from a tenant.
pub(crate) fn clean(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_line_is_one_object_with_what_it_is_about() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
        let line = json("warning: a \"b\"\nc", &[("tenant", 7.into())], now);
        assert!(!line.contains('\n'), "{line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        let expected = serde_json::json!(
            {"time": 1.5, "level": "warning", "message": "a \"b\"\nc", "tenant": 7}
        );
        assert_eq!(read, expected);
        let line = json("errors happen", &[], now);
        assert!(
            line.contains("\"info\"") && line.contains("errors happen"),
            "{line}"
        );
    }
}
