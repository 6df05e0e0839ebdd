//! What symbols in shared, local, constant and parameter memory hold: the
//! place that a root may point into.

use crate::code::Code;
use crate::names::{SymbolId, SymbolSpace};
use crate::origin::Root;
use debuginfo::DebugInfo;

/// An object in a function's frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackObject {
    /// Bytes from the start of the frame.
    pub offset: u32,
    /// Bytes, with the padding behind it where only starts are known.
    pub size: u32,
    /// Name, if debug information has it.
    pub name: Option<String>,
}

/// The objects of one frame, by offset, without gaps in the known part.
///
/// The compiler's text has the starts of objects; debug information also has
/// their lengths and names ([`ObjectTable::refine`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectTable {
    /// The frame.
    pub frame: SymbolId,
    /// Its objects, by offset.
    pub objects: Vec<StackObject>,
}

impl ObjectTable {
    /// The frames of a function. Each object reaches to the start of the
    /// next.
    pub(crate) fn of(code: &Code<'_, '_>, roots: &[Root]) -> Vec<ObjectTable> {
        let mut starts: Vec<(SymbolId, u32)> = roots
            .iter()
            .filter_map(|root| match *root {
                Root::Part { symbol, start } => Some((symbol, start)),
                _ => None,
            })
            .collect();
        starts.sort_unstable();
        starts.dedup();
        let mut tables: Vec<ObjectTable> = Vec::new();
        for (index, &(frame, offset)) in starts.iter().enumerate() {
            let whole = code.symbols[frame.0 as usize].size.unwrap_or(0);
            let end = match starts.get(index + 1) {
                Some(&(next, start)) if next == frame => start,
                _ => u32::try_from(whole).unwrap_or(u32::MAX),
            };
            let object = StackObject {
                offset,
                size: end.saturating_sub(offset),
                name: None,
            };
            match tables.last_mut() {
                Some(table) if table.frame == frame => table.objects.push(object),
                _ => tables.push(ObjectTable {
                    frame,
                    objects: vec![object],
                }),
            }
        }
        tables
    }

    /// Adds the debug information about a function's frames.
    pub(crate) fn refine_all(tables: &mut [ObjectTable], code: &Code<'_, '_>, debug: &DebugInfo) {
        let known = debug.frame_objects(code.function.name);
        for table in tables {
            let frame = code.symbols[table.frame.0 as usize].name;
            let own: Vec<StackObject> = known
                .iter()
                .filter(|object| object.frame == frame)
                .filter_map(|object| {
                    Some(StackObject {
                        offset: u32::try_from(object.offset).ok()?,
                        size: u32::try_from(object.size).ok()?,
                        name: Some(object.name.clone()),
                    })
                })
                .collect();
            table.refine(&own);
        }
    }

    /// Adds the names and lengths of objects from another source, for objects
    /// that start where the text has a start. A length is only used if it is
    /// shorter.
    pub fn refine(&mut self, known: &[StackObject]) {
        for object in &mut self.objects {
            // Of several variables that share a place, the longest.
            let same = known.iter().filter(|other| other.offset == object.offset);
            if let Some(known) = same.max_by_key(|other| other.size) {
                if known.size > 0 {
                    object.size = object.size.min(known.size);
                }
                object.name.clone_from(&known.name);
            }
        }
    }

    /// The object that starts at an offset.
    pub fn at(&self, offset: u32) -> Option<&StackObject> {
        let index = self
            .objects
            .binary_search_by_key(&offset, |object| object.offset)
            .ok()?;
        self.objects.get(index)
    }
}

/// Where in a symbol a root's bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The symbol.
    pub symbol: SymbolId,
    /// Its space.
    pub space: SymbolSpace,
    /// Bytes from the symbol's address to the first.
    pub start: u32,
    /// Bytes; `None` for the dynamic shared memory of the launch.
    pub size: Option<u64>,
}
