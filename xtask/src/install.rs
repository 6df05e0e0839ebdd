//! `install`: what a user needs, in a prefix, where the command finds its
//! libraries (`crates/cli/src/run/library.rs`).

use crate::build::{self, Built};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Builds Ringfence and copies it into a prefix: that of `cargo install`,
/// unless another is given.
///
/// # Errors
///
/// It cannot be built, or the prefix cannot be written.
pub fn run(prefix: Option<PathBuf>) -> Result<()> {
    let prefix = match prefix {
        Some(prefix) => prefix,
        None => usual(|name| std::env::var_os(name))
            .context("there is no HOME; name a folder with --root")?,
    };
    copy(&build::all()?, &prefix)?;
    println!("installed: {}", prefix.join("bin/ringfence").display());
    Ok(())
}

/// Where `cargo install` installs.
fn usual(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    ["CARGO_INSTALL_ROOT", "CARGO_HOME"]
        .into_iter()
        .find_map(&variable)
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&variable("HOME")?).join(".cargo")))
}

fn copy(built: &Built, prefix: &Path) -> Result<()> {
    let header = crate::workspace::root().join("include/ringfence.h");
    let mut files = vec![
        (built.command.clone(), "bin"),
        (built.plugin.clone(), "bin"),
        (built.dra_driver.clone(), "bin"),
        (built.library.clone(), "lib"),
        (built.opencl.clone(), "lib"),
        (header, "include"),
    ];
    for entry in std::fs::read_dir(&built.cudart)
        .with_context(|| format!("failed to list {}", built.cudart.display()))?
    {
        files.push((entry?.path(), "lib/cudart"));
    }
    for (from, folder) in files {
        let folder = prefix.join(folder);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("failed to make {}", folder.display()))?;
        let to = folder.join(from.file_name().context("a file without a name")?);
        // A program that is running keeps the file that it has opened.
        let new = to.with_extension("new");
        std::fs::copy(&from, &new)
            .and_then(|_| std::fs::rename(&new, &to))
            .with_context(|| format!("failed to write {}", to.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_that_of_cargo_install() {
        let of = |known: &[(&str, &str)]| {
            usual(|name| {
                let known = known.iter().find(|(key, _)| *key == name);
                known.map(|(_, value)| value.into())
            })
        };
        assert_eq!(of(&[("HOME", "/h")]), Some("/h/.cargo".into()));
        assert_eq!(
            of(&[("HOME", "/h"), ("CARGO_HOME", "/c")]),
            Some("/c".into())
        );
        assert_eq!(
            of(&[("CARGO_INSTALL_ROOT", "/r"), ("CARGO_HOME", "/c")]),
            Some("/r".into())
        );
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn everything_lies_where_the_command_looks_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("release");
        std::fs::create_dir_all(from.join("cudart")).unwrap();
        let file = |name: &str| {
            std::fs::write(from.join(name), name).unwrap();
            from.join(name)
        };
        let built = Built {
            command: file("ringfence"),
            plugin: file("ringfence-device-plugin"),
            dra_driver: file("ringfence-dra-driver"),
            library: file("libringfence.so"),
            opencl: file("libringfence_opencl.so"),
            cudart: from.join("cudart"),
            folder: from.clone(),
        };
        file("cudart/libcudart.so.13");
        let prefix = folder.path().join("prefix");
        copy(&built, &prefix).unwrap();
        // A second time over the first.
        copy(&built, &prefix).unwrap();
        for name in [
            "bin/ringfence",
            "bin/ringfence-device-plugin",
            "bin/ringfence-dra-driver",
            "lib/libringfence.so",
            "lib/libringfence_opencl.so",
            "lib/cudart/libcudart.so.13",
            "include/ringfence.h",
        ] {
            assert!(prefix.join(name).is_file(), "{name}");
        }
        assert_eq!(std::fs::read_dir(prefix.join("lib")).unwrap().count(), 3);
    }
}
