//! Writes the sources of the forwarding libraries into a folder: for each,
//! `SONAME.c` and `SONAME.map`. A program of its own, so that the step that
//! regenerates this crate's sources does not need them to compile.

use cudart::Version;
use cudart::forwarding::forwarding_source;

fn main() -> std::io::Result<()> {
    let folder = std::path::PathBuf::from(
        std::env::args_os()
            .nth(1)
            .ok_or_else(|| std::io::Error::other("usage: forwarding FOLDER"))?,
    );
    std::fs::create_dir_all(&folder)?;
    for version in [Version::Twelve, Version::Thirteen] {
        let forwarding = forwarding_source(version);
        let path = folder.join(&forwarding.soname);
        std::fs::write(path.with_added_extension("c"), forwarding.source)?;
        std::fs::write(path.with_added_extension("map"), forwarding.version_script)?;
    }
    Ok(())
}
