//! Instrumented modules as bytes, so that they can be kept on disk. The form is of
//! this build alone: who keeps the bytes must tell builds apart.
//!
//! What a report says in JSON is left out where it is usual, which a form without
//! names of fields cannot express. So sites and coverage have a form of their own
//! here; and names, of which there are few, are listed once.

use crate::output::{
    DeviceVariable, EntryPlan, Instrumented, LaunchIndex, LaunchLimit, Obstacle, Residual,
};
use crate::parameters::ParameterSlot;
use analysis::{Lost, Program};
use model::layout::shadow::Encoding;
use model::{
    AccessKind, AccessSite, AllocationKind, KernelCoverage, Neighbour, Provenance, SiteId,
    SourceLocation, Space, StaticObject, UncheckedReason,
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Places of inlined calls within each other at most.
const DEEPEST: usize = 64;

/// The bytes of a module's parts. `None` if one of them cannot be written.
pub fn to_bytes(parts: &[Instrumented]) -> Option<Vec<u8>> {
    let mut names = Names::default();
    let parts: Vec<Part<'_>> = parts.iter().map(|part| names.part(part)).collect();
    postcard::to_allocvec(&(names.list, parts)).ok()
}

/// The parts of a module that these are the bytes of. `None` if they are no module's.
pub fn from_bytes(bytes: &[u8]) -> Option<Vec<Instrumented>> {
    let ((names, parts), rest) =
        postcard::take_from_bytes::<(Vec<&str>, Vec<Part<'_>>)>(bytes).ok()?;
    let whole = || parts.into_iter().map(|part| part.whole(&names)).collect();
    rest.is_empty().then(whole).flatten()
}

/// Number of a name.
type Name = u32;

/// The names, each once.
#[derive(Default)]
struct Names<'p> {
    list: Vec<&'p str>,
    numbers: FxHashMap<&'p str, Name>,
}

/// [`Instrumented`].
#[derive(Serialize, Deserialize)]
struct Part<'p> {
    text: &'p str,
    tag: u64,
    #[serde(borrow)]
    sites: Vec<Site<'p>>,
    lost: Vec<(SiteId, Lost)>,
    entries: Vec<Entry>,
    variables: Vec<DeviceVariable>,
    uses_device_heap: bool,
    stack_is_unknown: bool,
    device_runtime: Option<String>,
    shadow: Option<Encoding>,
}

/// [`AccessSite`], without its number, which its place says.
#[derive(Serialize, Deserialize)]
struct Site<'p> {
    function: Name,
    kind: AccessKind,
    space: Space,
    width: u32,
    width_at_run_time: bool,
    offset: i64,
    is_wide: bool,
    alignment: u32,
    skipped: u32,
    group: SiteId,
    provenance: Origin,
    object: Option<Object>,
    /// From the innermost one outwards: file, line, column.
    source: Vec<(Name, u32, u32)>,
    ptx_line: u32,
    instruction: &'p str,
}

/// [`Provenance`].
#[derive(Serialize, Deserialize)]
enum Origin {
    KernelParameter(u32),
    Variable,
    Lookup,
    Several,
    Unknown,
    Shadow,
}

/// [`StaticObject`].
#[derive(Serialize, Deserialize)]
struct Object {
    kind: AllocationKind,
    name: Option<String>,
    size: Option<u64>,
    neighbours: Vec<(i64, u64, Option<String>)>,
}

/// [`EntryPlan`].
#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    checked_name: Option<String>,
    parameters: Vec<ParameterSlot>,
    parameter_bytes: u32,
    launch_parameter: Option<ParameterSlot>,
    takes_window: bool,
    roots: Vec<u32>,
    limits: Vec<LaunchLimit>,
    indices: Vec<LaunchIndex>,
    coverage: Counts,
    uses_device_malloc: bool,
    proof: Result<Program, Obstacle>,
    residual: Option<Residual>,
}

/// [`KernelCoverage`].
#[derive(Serialize, Deserialize)]
struct Counts {
    /// `proved`, `checked`, `residual`, `verified`
    launches: [u64; 4],
    unchecked: BTreeMap<UncheckedReason, u64>,
    /// `exact_sites`, `weak_sites`, `calls_without_bounds`
    places: [u32; 3],
    unchecked_sites: BTreeMap<String, u32>,
}

impl<'p> Names<'p> {
    fn name(&mut self, name: &'p str) -> Name {
        let list = &mut self.list;
        *self.numbers.entry(name).or_insert_with(|| {
            list.push(name);
            (list.len() - 1) as Name
        })
    }

    fn part(&mut self, part: &'p Instrumented) -> Part<'p> {
        let Instrumented {
            text,
            tag,
            sites,
            lost,
            entries,
            variables,
            uses_device_heap,
            stack_is_unknown,
            device_runtime,
            shadow,
        } = part;
        Part {
            text,
            tag: *tag,
            sites: sites.iter().map(|site| self.site(site)).collect(),
            lost: lost.clone(),
            entries: entries.iter().map(Entry::of).collect(),
            variables: variables.clone(),
            uses_device_heap: *uses_device_heap,
            stack_is_unknown: *stack_is_unknown,
            device_runtime: device_runtime.clone(),
            shadow: *shadow,
        }
    }

    fn site(&mut self, site: &'p AccessSite) -> Site<'p> {
        let AccessSite {
            id: _,
            function,
            kind,
            space,
            width,
            width_at_run_time,
            offset,
            is_wide,
            alignment,
            skipped,
            group,
            provenance,
            object,
            source,
            ptx_line,
            instruction,
        } = site;
        let places = source.iter().flat_map(SourceLocation::chain);
        Site {
            function: self.name(function),
            kind: *kind,
            space: *space,
            width: *width,
            width_at_run_time: *width_at_run_time,
            offset: *offset,
            is_wide: *is_wide,
            alignment: *alignment,
            skipped: *skipped,
            group: *group,
            provenance: match *provenance {
                Provenance::KernelParameter { offset } => Origin::KernelParameter(offset),
                Provenance::Variable => Origin::Variable,
                Provenance::Lookup => Origin::Lookup,
                Provenance::Several => Origin::Several,
                Provenance::Unknown => Origin::Unknown,
                Provenance::Shadow => Origin::Shadow,
            },
            object: object.as_deref().map(Object::of),
            source: places
                .map(|place| (self.name(&place.file), place.line, place.column))
                .collect(),
            ptx_line: *ptx_line,
            instruction,
        }
    }
}

impl Part<'_> {
    fn whole(self, names: &[&str]) -> Option<Instrumented> {
        let count = self.sites.len();
        let sites = self.sites.into_iter().zip(1..);
        let sites = sites.map(|(site, number)| site.whole(SiteId(number), names, count));
        let entries = self.entries.into_iter().map(Entry::whole);
        let is_site = |site: &SiteId| (1..=count).contains(&(site.0 as usize));
        self.lost
            .iter()
            .all(|(site, _)| is_site(site))
            .then_some(())?;
        Some(Instrumented {
            text: self.text.to_owned(),
            tag: self.tag,
            sites: sites.collect::<Option<_>>()?,
            lost: self.lost,
            entries: entries.collect::<Option<_>>()?,
            variables: self.variables,
            uses_device_heap: self.uses_device_heap,
            stack_is_unknown: self.stack_is_unknown,
            device_runtime: self.device_runtime,
            shadow: self.shadow,
        })
    }
}

impl Site<'_> {
    fn whole(self, id: SiteId, names: &[&str], count: usize) -> Option<AccessSite> {
        let name = |name: Name| names.get(name as usize).map(|name| (*name).to_owned());
        if self.source.len() > DEEPEST || !(1..=count).contains(&(self.group.0 as usize)) {
            return None;
        }
        let mut source = None;
        for (file, line, column) in self.source.into_iter().rev() {
            source = Some(SourceLocation {
                file: name(file)?,
                line,
                column,
                inlined_at: source.map(Box::new),
            });
        }
        Some(AccessSite {
            id,
            function: name(self.function)?,
            kind: self.kind,
            space: self.space,
            width: self.width,
            width_at_run_time: self.width_at_run_time,
            offset: self.offset,
            is_wide: self.is_wide,
            alignment: self.alignment,
            skipped: self.skipped,
            group: self.group,
            provenance: match self.provenance {
                Origin::KernelParameter(offset) => Provenance::KernelParameter { offset },
                Origin::Variable => Provenance::Variable,
                Origin::Lookup => Provenance::Lookup,
                Origin::Several => Provenance::Several,
                Origin::Unknown => Provenance::Unknown,
                Origin::Shadow => Provenance::Shadow,
            },
            object: self.object.map(|object| Box::new(object.whole())),
            source,
            ptx_line: self.ptx_line,
            instruction: self.instruction.to_owned(),
        })
    }
}

impl Object {
    fn of(object: &StaticObject) -> Object {
        let StaticObject {
            kind,
            name,
            size,
            neighbours,
        } = object;
        let neighbours = neighbours.iter().map(|neighbour| {
            let Neighbour { offset, size, name } = neighbour;
            (*offset, *size, name.clone())
        });
        Object {
            kind: *kind,
            name: name.clone(),
            size: *size,
            neighbours: neighbours.collect(),
        }
    }

    fn whole(self) -> StaticObject {
        let neighbours = self.neighbours.into_iter();
        let neighbours = neighbours.map(|(offset, size, name)| Neighbour { offset, size, name });
        StaticObject {
            kind: self.kind,
            name: self.name,
            size: self.size,
            neighbours: neighbours.collect(),
        }
    }
}

impl Entry {
    fn of(entry: &EntryPlan) -> Entry {
        let EntryPlan {
            name,
            checked_name,
            parameters,
            parameter_bytes,
            launch_parameter,
            takes_window,
            roots,
            limits,
            indices,
            coverage,
            uses_device_malloc,
            proof,
            residual,
        } = entry.clone();
        Entry {
            name,
            checked_name,
            parameters,
            parameter_bytes,
            launch_parameter,
            takes_window,
            roots,
            limits,
            indices,
            coverage: Counts::of(coverage),
            uses_device_malloc,
            proof,
            residual,
        }
    }

    fn whole(self) -> Option<EntryPlan> {
        let programs = [
            self.proof.as_ref().ok(),
            self.residual.as_ref().map(|residual| &residual.proof),
        ];
        let elided = self.residual.iter().map(|residual| &residual.elided);
        let of_roots = |limit: &LaunchLimit| {
            limit.alignment.is_power_of_two() && (limit.root as usize) < self.roots.len()
        };
        let indices_of_roots = |index: &LaunchIndex| {
            index.alignment.is_power_of_two()
                && index.scale > 0
                && (index.root as usize) < self.roots.len()
        };
        let is_whole = programs.into_iter().flatten().all(Program::is_well_formed)
            && self.limits.iter().all(of_roots)
            && self.indices.iter().all(indices_of_roots)
            && elided.into_iter().all(|sites| sites.is_sorted());
        is_whole.then_some(EntryPlan {
            name: self.name,
            checked_name: self.checked_name,
            parameters: self.parameters,
            parameter_bytes: self.parameter_bytes,
            launch_parameter: self.launch_parameter,
            takes_window: self.takes_window,
            roots: self.roots,
            limits: self.limits,
            indices: self.indices,
            coverage: self.coverage.whole(),
            uses_device_malloc: self.uses_device_malloc,
            proof: self.proof,
            residual: self.residual,
        })
    }
}

impl Counts {
    fn of(coverage: KernelCoverage) -> Counts {
        let KernelCoverage {
            proved,
            checked,
            residual,
            unchecked,
            exact_sites,
            weak_sites,
            unchecked_sites,
            calls_without_bounds,
            verified,
        } = coverage;
        Counts {
            launches: [proved, checked, residual, verified],
            unchecked,
            places: [exact_sites, weak_sites, calls_without_bounds],
            unchecked_sites,
        }
    }

    fn whole(self) -> KernelCoverage {
        let [proved, checked, residual, verified] = self.launches;
        let [exact_sites, weak_sites, calls_without_bounds] = self.places;
        KernelCoverage {
            proved,
            checked,
            residual,
            unchecked: self.unchecked,
            exact_sites,
            weak_sites,
            unchecked_sites: self.unchecked_sites,
            calls_without_bounds,
            verified,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, instrument};
    use proptest::prelude::*;

    const SOURCE: &str = "\
.version 8.0
.target sm_80
.address_size 64
.file 1 \"a.cu\"
.file 2 \"b.h\"
.global .align 4 .b8 table[64];
.visible .entry k(.param .u64 p, .param .u32 n)
{
.reg .pred %q; .reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .align 4 .b8 s[64];
ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd1, %rd1; ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
mad.lo.s32 %r5, %r2, %r3, %r4; setp.ge.s32 %q, %r5, %r1;
@%q bra $end;
mul.wide.s32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2;
.loc 1 7 3
ld.global.u32 %r6, [%rd3];
.loc 2 9 4, function_name $name, inlined_at 1 8 5
mul.wide.s32 %rd4, %r6, 4; add.s64 %rd5, %rd1, %rd4;
st.global.u32 [%rd5], %r6;
mov.u64 %rd6, s; add.s64 %rd6, %rd6, %rd2; st.shared.u32 [%rd6], %r6;
mov.u64 %rd7, table; add.s64 %rd7, %rd7, %rd2; ld.global.u32 %r7, [%rd7];
$end:
ret;
}
";

    fn made() -> Vec<Instrumented> {
        let plain = instrument(SOURCE, &Options::default()).unwrap();
        assert!(plain.entries.iter().any(|entry| entry.program().is_some()));
        let trap = Options {
            trap: true,
            ..Options::default()
        };
        vec![plain, instrument(SOURCE, &trap).unwrap()]
    }

    #[test]
    fn what_was_written_is_read() {
        let parts = made();
        let bytes = to_bytes(&parts).unwrap();
        let read = from_bytes(&bytes).unwrap();
        // All that it has, by the text of each part.
        assert_eq!(format!("{read:?}"), format!("{parts:?}"));
        assert_eq!(
            format!("{:?}", from_bytes(&to_bytes(&[]).unwrap())),
            "Some([])"
        );
        assert!(from_bytes(&bytes[..bytes.len() - 1]).is_none());
        assert!(from_bytes(&[&bytes[..], &[0]].concat()).is_none());
    }

    proptest! {
        /// Bytes whose hash was made to fit: what is read of them can be used.
        #[test]
        fn changed_bytes_are_none_or_can_be_used(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            text_is_left: bool,
        ) {
            let parts = made();
            let mut bytes = to_bytes(&parts).unwrap();
            // Most of it is text, in which changes do not matter.
            let texts: usize = parts.iter().map(|part| part.text.len()).sum();
            let from = if text_is_left { texts / 2 } else { 0 };
            for (at, byte) in changes {
                let at = from + at.index(bytes.len() - from);
                bytes[at] = byte;
            }
            for part in from_bytes(&bytes).into_iter().flatten() {
                let shape = crate::LaunchShape { grid: [4, 1, 1], block: [64, 1, 1], shared: 0 };
                for program in part.entries.iter().filter_map(EntryPlan::program) {
                    let inputs = vec![1 << 20; program.inputs().len()];
                    let _ = program.proves(&shape, &inputs, &|_| Some((1 << 20, 4096)));
                }
                for site in &part.sites {
                    prop_assert!(part.sites.get(site.group.0 as usize - 1).is_some());
                }
            }
        }
    }
}
