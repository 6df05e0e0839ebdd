//! `ringfence slice` and `ringfence cdi`: parts of a device with a limit of
//! their own, for containers and batch jobs.

use crate::options::{CdiOptions, SliceCommand, SliceOptions};
use crate::run::library;
use crate::terminal;
use anyhow::{Context, Result, bail};
use container::{Edits, Libraries, cdi::Spec};
use protocol::{Control, NewSlice, SliceState, is_slice_name, slice_folder};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Makes, ends and shows slices.
pub fn slice(options: &SliceOptions) -> Result<()> {
    let folder = &options.slices;
    match &options.command {
        SliceCommand::Add {
            name,
            memory,
            owner,
        } => {
            let state = Control::connect(folder)?.add(NewSlice {
                name: name.clone(),
                memory: memory.0,
                owner: *owner,
            })?;
            terminal::say(&format!(
                "slice {name} has {} bytes, at {}",
                state.memory,
                state.folder.display()
            ));
            Ok(())
        }
        SliceCommand::Remove { name } => Ok(Control::connect(folder)?.remove(name)?),
        SliceCommand::List => terminal::print(&table(&Control::connect(folder)?.state()?.slices)),
        SliceCommand::Env { name } => environment(folder, name),
    }
}

/// What the shell of a process of this host, in no container, sets. Asks nobody:
/// its user may not ask the manager.
fn environment(folder: &Path, name: &str) -> Result<()> {
    let run = slice_folder(folder, name);
    if !is_slice_name(name) || !run.is_dir() {
        bail!(
            "there is no slice {name} in {}; `ringfence slice add` makes one",
            folder.display()
        );
    }
    let folder = libraries(None)?;
    let libraries = Libraries {
        here: &folder,
        there: &folder,
    };
    let variables = container::environment(&run, libraries)?;
    let mut text = String::new();
    for (name, value) in variables {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "export {name}={value}");
    }
    terminal::print(&text)
}

/// Writes a specification of all slices that have no owner: those are for
/// containers.
pub fn cdi(options: &CdiOptions) -> Result<()> {
    let state = Control::connect(&options.slices)?.state()?;
    let libraries = libraries(options.libraries.as_deref())?;
    let mut edits = Vec::new();
    for slice in state.slices.iter().filter(|slice| slice.owner.is_none()) {
        edits.push((
            slice.name.as_str(),
            Edits::new(&slice.folder, &libraries, &libraries)?,
        ));
    }
    if edits.is_empty() {
        // A file without a device is refused by those who read it.
        bail!(
            "there is no slice for containers in {}; `ringfence slice add NAME --memory BYTES` makes one",
            options.slices.display()
        );
    }
    let spec = Spec::new(edits.iter().map(|(name, edits)| (*name, edits)));
    let text = spec
        .to_json()
        .context("the specification cannot be written")?;
    let Some(path) = &options.output else {
        return terminal::print(&text);
    };
    // A runtime that reads the folder meanwhile finds the old file or the new one.
    let new = path.with_extension("new");
    std::fs::write(&new, text)
        .and_then(|()| std::fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Where Ringfence's libraries lie: as given, else beside this command.
fn libraries(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(given) = given {
        return std::path::absolute(given)
            .with_context(|| format!("--libraries {}", given.display()));
    }
    let library = library::find()?;
    Ok(library.path().parent().unwrap_or(Path::new("/")).to_owned())
}

fn table(slices: &[SliceState]) -> String {
    let mut text = String::from("name\tbytes\tused\ttenants\tuser\tfolder\n");
    for slice in slices {
        let owner = slice
            .owner
            .map_or("-".into(), |owner: u32| owner.to_string());
        let _ = writeln!(
            text,
            "{}\t{}\t{}\t{}\t{owner}\t{}",
            slice.name,
            slice.memory,
            slice.used,
            slice.tenants,
            slice.folder.display()
        );
    }
    text
}
