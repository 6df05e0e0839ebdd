//! The list of access sites, with their places in the program's source.

use crate::protocol::LAST_SITE;
use model::{AccessKind, AccessSite, Provenance, SiteId, SourceLocation, Space, StaticObject};
use rustc_hash::FxHashMap;

/// Collects sites while functions are instrumented, in text order.
pub(crate) struct Sites<'a> {
    source: &'a str,
    files: FxHashMap<u32, &'a str>,
    inlined: Inlined,
    lines: ptx::LineIndex<'a>,
    pub(crate) list: Vec<AccessSite>,
}

/// File, line and column, as `.loc` has them.
type Place = (u32, u32, u32);

/// Where the text marks a place as inlined: position of the `.loc`, and the
/// place of the call. One place can be inlined many times.
type Inlined = FxHashMap<Place, Vec<(u32, Place)>>;

/// Calls followed outwards at most: text may name a place as its own caller.
const MOST_INLINED: usize = 32;

/// The description of a new site.
pub(crate) struct NewSite<'s> {
    pub(crate) function: &'s str,
    pub(crate) kind: AccessKind,
    pub(crate) space: Space,
    pub(crate) width: u32,
    pub(crate) width_at_run_time: bool,
    pub(crate) offset: i64,
    pub(crate) is_wide: bool,
    pub(crate) alignment: u32,
    pub(crate) skipped: u32,
    pub(crate) provenance: Provenance,
    pub(crate) object: Option<Box<StaticObject>>,
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
        let mut inlined = Inlined::default();
        for function in module.functions() {
            for (_, statement) in function.statements() {
                if let ptx::Statement::Loc(loc) = statement
                    && let Some(at) = loc.inlined_at
                {
                    inlined
                        .entry((loc.file, loc.line, loc.column))
                        .or_default()
                        .push((loc.span.start, at));
                }
            }
        }
        Sites {
            source: module.source,
            files,
            inlined,
            lines: ptx::LineIndex::new(module.source),
            list: Vec::new(),
        }
    }

    pub(crate) fn source(&self) -> &'a str {
        self.source
    }

    /// The lines of the module's text.
    pub(crate) fn lines(&self) -> &ptx::LineIndex<'a> {
        &self.lines
    }

    /// Whether no record can name one more.
    pub(crate) fn are_full(&self) -> bool {
        self.list.len() >= LAST_SITE as usize
    }

    /// Adds a site that leads its own group.
    pub(crate) fn add(&mut self, new: NewSite<'_>) -> SiteId {
        let id = SiteId(self.list.len() as u32 + 1);
        let source = new.loc.and_then(|loc| self.locate(loc));
        let ptx_line = self.lines.line_of(new.span.start);
        self.list.push(AccessSite {
            id,
            function: new.function.to_owned(),
            kind: new.kind,
            space: new.space,
            width: new.width,
            width_at_run_time: new.width_at_run_time,
            offset: new.offset,
            is_wide: new.is_wide,
            alignment: new.alignment,
            skipped: new.skipped,
            group: id,
            provenance: new.provenance,
            object: new.object,
            source,
            ptx_line,
            instruction: one_line(new.span.text(self.source)),
        });
        id
    }
}

impl Sites<'_> {
    /// The place that a `.loc` names, with the calls through which it was
    /// inlined. The compiler writes a chain as several `.loc`, each of which
    /// names the next one's place. Of equal places, the nearest one before the
    /// instruction, or directly after it, is used. Calls in line 0, which the
    /// compiler made, are left out.
    fn locate(&self, loc: &ptx::Loc<'_>) -> Option<SourceLocation> {
        let mut places = vec![(loc.file, loc.line, loc.column)];
        let mut next = loc.inlined_at;
        while let Some(place) = next.filter(|_| places.len() < MOST_INLINED) {
            places.push(place);
            next = self.inlined.get(&place).and_then(|known| {
                known
                    .iter()
                    .min_by_key(|(start, _)| start.abs_diff(loc.span.start))
                    .map(|(_, at)| *at)
            });
        }
        let mut location = None;
        for (file, line, column) in places.into_iter().rev().filter(|place| place.1 != 0) {
            location = Some(SourceLocation {
                file: (*self.files.get(&file)?).to_owned(),
                line,
                column,
                inlined_at: location.map(Box::new),
            });
        }
        location
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

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
.version 7.0
.target sm_75
.address_size 64
.visible .entry k()
{
.loc 1 9 5
.loc 2 661 1, function_name $L__info_string0, inlined_at 1 9 5
.loc 2 644 3, function_name $L__info_string1, inlined_at 2 661 1
.loc 1 5 1, function_name $L__info_string1, inlined_at 1 5 1
.loc 2 30 3, function_name $L__info_string1, inlined_at 1 0 1
ret;
}
.file 1 \"/src/app.cu\"
.file 2 \"/cuda/half.hpp\"
";

    fn chains() -> Vec<Vec<(String, u32)>> {
        let module = ptx::parse(TEXT).unwrap();
        let sites = Sites::of(&module);
        let function = module.functions().next().unwrap();
        function
            .statements()
            .filter_map(|(_, statement)| match statement {
                ptx::Statement::Loc(loc) => sites.locate(loc),
                _ => None,
            })
            .map(|location| {
                location
                    .chain()
                    .map(|place| (place.file.clone(), place.line))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn calls_are_followed_outwards() {
        let chains = chains();
        let app = |line| ("/src/app.cu".to_owned(), line);
        let half = |line| ("/cuda/half.hpp".to_owned(), line);
        assert_eq!(chains[0], [app(9)]);
        assert_eq!(chains[1], [half(661), app(9)]);
        assert_eq!(chains[2], [half(644), half(661), app(9)]);
    }

    #[test]
    fn calls_in_line_zero_are_left_out() {
        assert_eq!(chains()[4], [("/cuda/half.hpp".to_owned(), 30)]);
    }

    #[test]
    fn a_place_inlined_into_itself_ends() {
        assert_eq!(chains()[3].len(), MOST_INLINED);
    }
}
