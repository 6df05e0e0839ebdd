//! The list of programs that are known to be judged wrong.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A program that is known to be judged wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Case and twin, as in the results.
    pub program: String,
    /// The device where it is; none: on both.
    pub device: Option<model::DeviceKind>,
    /// The protection that it is run under alone ([`crate::alone`]), if it is judged wrong
    /// only then.
    #[serde(default)]
    pub alone: Option<String>,
    /// Why.
    pub reason: String,
}

/// File name of the list of programs that are known to be judged wrong.
pub const MISSING: &str = "expected-missing.txt";

/// Reads that list from the folder of the groups; no file is an empty list.
///
/// # Errors
///
/// It cannot be read, or a line of it.
pub fn read(folder: &Path) -> Result<Vec<Missing>> {
    let path = folder.join(MISSING);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("failed to read {}", path.display()));
        }
    };
    parse_missing(&text).with_context(|| format!("in {}", path.display()))
}

impl Missing {
    /// Whether it is about this program on this device, as the suite runs it, or under this
    /// protection alone.
    pub fn is_of(&self, program: &str, device: model::DeviceKind, alone: Option<&str>) -> bool {
        self.program == program
            && self.device.is_none_or(|own| own == device)
            && self.alone.as_deref() == alone
    }
}

/// One line a program: `PROGRAM any|cpu|gpu REASON`, or with `:PROTECTION` behind the
/// device for what is wrong under that protection alone; `#` starts a comment.
fn parse_missing(text: &str) -> Result<Vec<Missing>> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let (Some(program), Some(device), Some(reason)) =
                (words.next(), words.next(), words.next())
            else {
                bail!("`{line}` is not `PROGRAM any|cpu|gpu[:PROTECTION] REASON`");
            };
            let (device, alone) = match device.split_once(':') {
                Some((device, protection)) => (device, Some(protection.to_owned())),
                None => (device, None),
            };
            Ok(Missing {
                program: program.to_owned(),
                device: match device {
                    "any" => None,
                    "cpu" => Some(model::DeviceKind::Cpu),
                    "gpu" => Some(model::DeviceKind::Gpu),
                    _ => bail!("`{device}` is no device"),
                },
                alone,
                reason: reason.trim().to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_what_is_missing_is_read() {
        let list = parse_missing("# why\n\nbad_a any not yet\ngood_b cpu no such call\n").unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(
            list[1],
            Missing {
                program: "good_b".into(),
                device: Some(model::DeviceKind::Cpu),
                alone: None,
                reason: "no such call".into()
            }
        );
        assert_eq!(list[0].device, None);
        let gpu = model::DeviceKind::Gpu;
        assert!(list[0].is_of("bad_a", gpu, None) && !list[1].is_of("good_b", gpu, None));
        let alone = &parse_missing("good_c gpu:pages it dies\n").unwrap()[0];
        assert!(alone.is_of("good_c", gpu, Some("pages")));
        assert!(!alone.is_of("good_c", gpu, None) && !alone.is_of("good_c", gpu, Some("shadow")));
        assert!(parse_missing("bad_a any").is_err());
        assert!(parse_missing("bad_a tpu why").is_err());
    }
}
