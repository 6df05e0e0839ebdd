//! The list of access sites, with their places in the program's source.

use model::{AccessKind, AccessSite, Provenance, SiteId, SourceLocation, Space};
use rustc_hash::FxHashMap;

/// Collects sites while functions are instrumented, in text order.
pub(crate) struct Sites<'a> {
    source: &'a str,
    files: FxHashMap<u32, &'a str>,
    line_starts: Vec<u32>,
    pub(crate) list: Vec<AccessSite>,
}

/// What a site needs to be told.
pub(crate) struct NewSite<'s> {
    pub(crate) function: &'s str,
    pub(crate) kind: AccessKind,
    pub(crate) space: Space,
    pub(crate) width: u32,
    pub(crate) offset: i64,
    pub(crate) provenance: Provenance,
    pub(crate) loc: Option<&'s ptx::Loc<'s>>,
    pub(crate) span: ptx::Span,
}

impl<'a> Sites<'a> {
    pub(crate) fn of(module: &ptx::Module<'a>) -> Self {
        let files = module
            .items
            .iter()
            .filter_map(|item| match item {
                ptx::Item::File(file) => Some((file.index, file.name)),
                _ => None,
            })
            .collect();
        let line_starts = std::iter::once(0)
            .chain(
                module
                    .source
                    .bytes()
                    .enumerate()
                    .filter(|(_, b)| *b == b'\n')
                    .map(|(i, _)| i as u32 + 1),
            )
            .collect();
        Sites {
            source: module.source,
            files,
            line_starts,
            list: Vec::new(),
        }
    }

    pub(crate) fn source(&self) -> &'a str {
        self.source
    }

    /// Adds a site that leads its own group.
    pub(crate) fn add(&mut self, new: NewSite<'_>) -> SiteId {
        let id = SiteId(self.list.len() as u32 + 1);
        let source = new.loc.filter(|loc| loc.line != 0).and_then(|loc| {
            let file = self.files.get(&loc.file)?;
            Some(SourceLocation {
                file: (*file).to_owned(),
                line: loc.line,
                column: loc.column,
            })
        });
        let ptx_line = self
            .line_starts
            .partition_point(|&start| start <= new.span.start) as u32;
        self.list.push(AccessSite {
            id,
            function: new.function.to_owned(),
            kind: new.kind,
            space: new.space,
            width: new.width,
            offset: new.offset,
            group: id,
            provenance: new.provenance,
            source,
            ptx_line,
            instruction: one_line(new.span.text(self.source)),
        });
        id
    }
}

/// An instruction's text without line breaks and runs of blanks.
fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.trim_end_matches(';').split_ascii_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}
