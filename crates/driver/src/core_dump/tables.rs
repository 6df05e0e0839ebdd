//! The sections of a core dump, and how they are linked.

use super::CoreDumpError;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use object::{LittleEndian, SectionIndex};

/// First type of sections that is CUDA's own.
const OWN: u32 = 0x8000_0000;

/// Kinds of sections that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Registers of a lane.
    Registers,
    /// Machine code of a module, as it lies in memory.
    Image,
    /// Blocks of an SM.
    Blocks,
    /// Warps of a block.
    Warps,
    /// Lanes of a warp.
    Lanes,
}

impl Kind {
    fn of(section: u32) -> Option<Kind> {
        Some(match section.wrapping_sub(OWN) {
            5 => Kind::Registers,
            7 => Kind::Image,
            13 => Kind::Blocks,
            14 => Kind::Warps,
            15 => Kind::Lanes,
            _ => return None,
        })
    }
}

/// A section.
#[derive(Clone, Copy, Debug)]
pub struct Section<'d> {
    kind: Kind,
    index: usize,
    /// The section with the table of its parents, and its parent's row there.
    parent: (usize, usize),
    row_size: u64,
    pub bytes: &'d [u8],
}

impl<'d> Section<'d> {
    /// The rows of a table, each of which has at least so many bytes.
    pub fn rows(
        &self,
        table: &'static str,
        least: u64,
    ) -> Result<impl Iterator<Item = &'d [u8]>, CoreDumpError> {
        let bytes = self.row_size;
        if bytes < least && !self.bytes.is_empty() {
            return Err(CoreDumpError::Short { table, bytes });
        }
        let size = usize::try_from(bytes).unwrap_or(usize::MAX).max(1);
        Ok(self.bytes.chunks_exact(size))
    }
}

/// The sections that are read.
pub struct Tables<'d> {
    sections: Vec<Section<'d>>,
}

impl<'d> Tables<'d> {
    /// Reads the headers of a dump's sections.
    pub fn read(dump: &'d [u8]) -> Result<Tables<'d>, CoreDumpError> {
        let malformed = |error: object::Error| CoreDumpError::Malformed(error.to_string());
        let header = FileHeader64::<LittleEndian>::parse(dump).map_err(malformed)?;
        let all = header.sections(LittleEndian, dump).map_err(malformed)?;
        let mut sections = Vec::new();
        for (SectionIndex(index), section) in all.enumerate() {
            let Some(kind) = Kind::of(section.sh_type(LittleEndian).0) else {
                continue;
            };
            let (at, size) = (
                section.sh_offset(LittleEndian),
                section.sh_size(LittleEndian),
            );
            let end = at.checked_add(size);
            let range = end.and_then(|end| {
                let (at, end) = (usize::try_from(at).ok()?, usize::try_from(end).ok()?);
                dump.get(at..end)
            });
            let bytes = range.ok_or_else(|| {
                CoreDumpError::Malformed(format!("section {index} lies outside of the file"))
            })?;
            sections.push(Section {
                kind,
                index,
                parent: (
                    section.sh_link(LittleEndian) as usize,
                    section.sh_info(LittleEndian) as usize,
                ),
                row_size: section.sh_entsize(LittleEndian),
                bytes,
            });
        }
        Ok(Tables { sections })
    }

    /// All sections of a kind.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Section<'d>> {
        let sections = self.sections.iter();
        sections.filter(move |section| section.kind == kind)
    }

    /// The sections of a kind whose parent is a row of this one.
    pub fn children(
        &self,
        of: &Section<'d>,
        kind: Kind,
        row: usize,
    ) -> impl Iterator<Item = &Section<'d>> {
        let parent = (of.index, row);
        self.all(kind)
            .filter(move |section| section.parent == parent)
    }
}
