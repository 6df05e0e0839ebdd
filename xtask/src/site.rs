//! `docs`: README.md and docs as a site, made by mdBook.
//!
//! mdBook takes pages from one folder, and README.md lies above docs. So the
//! pages are put together in `target/docs`, with their links changed to match,
//! before mdBook makes `target/site` from them (`book.toml`).

use crate::command::{command, run};
use crate::pages::all;
use crate::setup;
use crate::workspace::root;
use anyhow::{Context, Result};
use std::path::Path;

/// Files that pages link to beside other pages.
const LINKED: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Builds the site.
///
/// # Errors
///
/// mdBook cannot be installed, or refuses a page.
pub fn build() -> Result<()> {
    let mdbook = setup::mdbook()?;
    // As book.toml says, whatever CARGO_TARGET_DIR does.
    let pages = root().join("target/docs");
    if pages.exists() {
        std::fs::remove_dir_all(&pages).context("failed to clear target/docs")?;
    }
    stage(&pages)?;
    run(&mut command(mdbook, ["build"]))?;
    println!("the site: {}", root().join("target/site").display());
    Ok(())
}

/// Puts all pages, and what they show, into one folder.
///
/// # Errors
///
/// A file cannot be read or written.
pub fn stage(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("failed to make {}", folder.display()))?;
    let copy = |from: &Path| -> Result<()> {
        let name = from.file_name().context("a file without a name")?;
        std::fs::copy(from, folder.join(name))
            .with_context(|| format!("failed to copy {}", from.display()))?;
        Ok(())
    };
    for entry in std::fs::read_dir(root().join("docs")).context("failed to list docs")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            copy(&path)?;
        }
    }
    for name in LINKED {
        copy(&root().join(name))?;
    }
    for page in all()? {
        let name = page.name.file_name().context("a page without a name")?;
        std::fs::write(folder.join(name), flattened(&page.text))
            .with_context(|| format!("failed to write {}", page.name.display()))?;
    }
    Ok(())
}

/// A page whose links fit pages that all lie in one folder.
fn flattened(text: &str) -> String {
    text.replace("](docs/", "](").replace("](../", "](")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lose_their_folders() {
        assert_eq!(
            flattened("[a](docs/a.md#b) ![c](c.svg) [d](../D.md) `docs/e.md`"),
            "[a](a.md#b) ![c](c.svg) [d](D.md) `docs/e.md`"
        );
    }
}
