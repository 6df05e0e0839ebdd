//! The pages that people read: README.md and docs, and the other pages of the
//! workspace's folder that these link to.

use crate::workspace::root;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Pages beside README.md that belong to the site.
pub const OTHERS: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its path below the workspace's folder.
    pub name: PathBuf,
    /// What it says.
    pub text: String,
}

impl Page {
    /// Reads a page of `folder`.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn read(folder: &Path, name: PathBuf) -> Result<Page> {
        let text = std::fs::read_to_string(folder.join(&name))
            .with_context(|| format!("failed to read {}", name.display()))?;
        Ok(Page { name, text })
    }
}

/// README.md and the pages in docs, by name.
///
/// # Errors
///
/// One cannot be read.
pub fn documentation() -> Result<Vec<Page>> {
    let mut names = vec![PathBuf::from("README.md")];
    let folder = root().join("docs");
    for entry in std::fs::read_dir(&folder).context("failed to list docs")? {
        let name = Path::new("docs").join(entry?.file_name());
        if name.extension().is_some_and(|extension| extension == "md") {
            names.push(name);
        }
    }
    names.sort();
    let read = |name| Page::read(&root(), name);
    names.into_iter().map(read).collect()
}

/// The same, and [`OTHERS`].
///
/// # Errors
///
/// One cannot be read.
pub fn all() -> Result<Vec<Page>> {
    let mut pages = documentation()?;
    for name in OTHERS {
        pages.push(Page::read(&root(), name.into())?);
    }
    Ok(pages)
}

/// Links of pages in `folder` that lead nowhere, each with its page: to no
/// file, or to no heading of a page. Addresses on the network are not
/// followed.
///
/// # Errors
///
/// A page that is linked to cannot be read.
#[cfg(test)]
fn broken(folder: &Path, pages: &[Page]) -> Result<Vec<String>> {
    use crate::markdown::{anchors, links};
    let mut broken = Vec::new();
    for page in pages {
        for link in links(&page.text) {
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let beside = page.name.parent().unwrap_or(Path::new(""));
            let target = match path {
                "" => page.name.clone(),
                _ => beside.join(path),
            };
            let is_there = folder.join(&target).is_file()
                && (anchor.is_empty()
                    || anchors(&Page::read(folder, target)?.text)
                        .iter()
                        .any(|known| known == anchor));
            if !is_there {
                broken.push(format!("{}: {link}", page.name.display()));
            }
        }
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown::links;

    #[test]
    fn links_to_nothing_are_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        for (name, text) in [
            ("README.md", "[a](docs/a.md#b-c) [b](docs/b.md) [c](#d)"),
            (
                "docs/a.md",
                "# B c\n[r](../README.md) [x](a.md#no) [n](https://x)",
            ),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let pages: Vec<Page> = ["README.md", "docs/a.md"]
            .map(|name| Page::read(folder.path(), name.into()).unwrap())
            .into();
        assert_eq!(
            broken(folder.path(), &pages).unwrap(),
            [
                "README.md: #d",
                "README.md: docs/b.md",
                "docs/a.md: a.md#no"
            ]
        );
    }

    #[test]
    fn every_link_leads_somewhere() {
        let pages = all().unwrap();
        assert!(pages.len() > 10, "too few pages are read");
        let broken = broken(&root(), &pages).unwrap();
        assert!(broken.is_empty(), "{broken:#?}");
    }

    #[test]
    fn every_link_leads_somewhere_in_the_site() {
        let folder = tempfile::tempdir().unwrap();
        crate::site::stage(folder.path()).unwrap();
        let mut pages = Vec::new();
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let name = PathBuf::from(entry.unwrap().file_name());
            if name.extension().is_some_and(|extension| extension == "md") {
                pages.push(Page::read(folder.path(), name).unwrap());
            }
        }
        assert_eq!(pages.len(), all().unwrap().len());
        let broken = broken(folder.path(), &pages).unwrap();
        assert!(broken.is_empty(), "{broken:#?}");
    }

    #[test]
    fn the_summary_names_every_page_once() {
        let summary = Page::read(&root(), "docs/SUMMARY.md".into()).unwrap();
        let lines = summary.text.lines().filter(|line| line.contains("]("));
        let mut named: Vec<PathBuf> = links(&summary.text)
            .into_iter()
            .map(|link| match link.strip_prefix("../") {
                Some(outside) => outside.into(),
                None => Path::new("docs").join(link),
            })
            .collect();
        assert_eq!(lines.count(), named.len(), "a page is named twice");
        named.push(summary.name);
        named.sort();
        let mut pages: Vec<PathBuf> = all().unwrap().into_iter().map(|page| page.name).collect();
        pages.sort();
        assert_eq!(named, pages);
    }

    #[test]
    fn the_readme_can_be_read_in_one_sitting() {
        let readme = Page::read(&root(), "README.md".into()).unwrap();
        let lines = readme.text.lines().count();
        assert!(
            lines <= 170,
            "README.md has {lines} lines; details belong into docs"
        );
    }
}
