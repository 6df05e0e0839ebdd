//! What was decided about a module when it was prepared.

pub use fatbin::ModulePart;
use instrument::{EntryPlan, Instrumented};
use model::{AccessKind, AccessSite, Provenance, SiteId, SourceLocation, Space, UncheckedReason};
use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

/// What to load instead of the program's module, or that its own is to be
/// loaded.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// Load (and link, if several) this PTX.
    Instrumented {
        /// One text for each part.
        ptx: Vec<String>,
        /// To be given back to [`Modules::loaded`](crate::Modules::loaded).
        plan: Arc<ModulePlan>,
    },
    /// Load what the program gave.
    Original {
        /// To be given back to [`Modules::loaded`](crate::Modules::loaded).
        plan: Arc<ModulePlan>,
        /// The PTX in it that fits the device, for devices that run nothing
        /// else.
        ptx: Option<Vec<String>>,
    },
}

impl Prepared {
    /// The plan in either case.
    pub fn plan(&self) -> &Arc<ModulePlan> {
        match self {
            Prepared::Instrumented { plan, .. } | Prepared::Original { plan, .. } => plan,
        }
    }
}

/// The plan of one module.
#[derive(Debug)]
pub struct ModulePlan {
    pub(crate) parts: Vec<Arc<PartPlan>>,
    entries: FxHashMap<String, Arc<EntryPlan>>,
    variables: Vec<String>,
    uses_lookups: bool,
    instruments_functions: bool,
    uses_device_heap: bool,
    stack_is_unknown: bool,
    /// Offsets of the pointer parameters through which a kernel writes, by its
    /// name; for kernels that reach memory in no other way.
    writes: FxHashMap<String, Vec<u32>>,
    /// Why its kernels run unchecked, if they do.
    unchecked: OnceLock<(UncheckedReason, String)>,
}

impl ModulePlan {
    pub(crate) fn instrumented(parts: Vec<Instrumented>) -> ModulePlan {
        let mut entries = FxHashMap::default();
        let mut plans = Vec::with_capacity(parts.len());
        let mut variables = Vec::new();
        let mut uses_lookups = false;
        let mut instruments_functions = false;
        let mut uses_device_heap = false;
        let mut stack_is_unknown = false;
        for part in parts {
            variables.extend(part.variables.into_iter().map(|variable| variable.name));
            uses_device_heap |= part.uses_device_heap;
            stack_is_unknown |= part.stack_is_unknown;
            instruments_functions |= part
                .sites
                .iter()
                .any(|site| part.entries.iter().all(|entry| entry.name != site.function));
            // Kernels that others launch are checked in place, as functions are.
            instruments_functions |= part.device_runtime.is_some() && !part.sites.is_empty();
            uses_lookups |= part.sites.iter().any(|site| {
                !matches!(
                    site.provenance,
                    Provenance::KernelParameter { .. } | Provenance::Variable
                )
            });
            for entry in part.entries {
                // A checked entry without a launch parameter looks its pointers up.
                uses_lookups |= entry.checked_name.is_some() && entry.launch_parameter.is_none();
                entries
                    .entry(entry.name.clone())
                    .or_insert_with(|| Arc::new(entry));
            }
            plans.push(Arc::new(PartPlan::new(part.tag, part.sites)));
        }
        ModulePlan {
            parts: plans,
            entries,
            variables,
            uses_lookups,
            instruments_functions,
            uses_device_heap,
            stack_is_unknown,
            writes: FxHashMap::default(),
            unchecked: OnceLock::new(),
        }
    }

    /// Of a module that is loaded as it is, but whose kernels are known.
    pub(crate) fn analysed(parts: Vec<Instrumented>) -> ModulePlan {
        let mut writes = FxHashMap::default();
        for part in &parts {
            for entry in &part.entries {
                if let Some(offsets) = written(part, entry) {
                    writes.insert(entry.name.clone(), offsets);
                }
            }
        }
        let mut plan = ModulePlan::instrumented(parts);
        plan.uses_lookups = false;
        plan.instruments_functions = false;
        plan.uses_device_heap = false;
        plan.stack_is_unknown = false;
        plan.variables = Vec::new();
        plan.entries = plan
            .entries
            .into_iter()
            .map(|(name, entry)| {
                let entry = EntryPlan {
                    checked_name: None,
                    residual: None,
                    uses_device_malloc: false,
                    ..(*entry).clone()
                };
                (name, Arc::new(entry))
            })
            .collect();
        plan.writes = writes;
        plan
    }

    /// Offsets of the pointer parameters through which a kernel may write;
    /// `None`: it may write anywhere.
    pub(crate) fn written(&self, kernel: &str) -> Option<&[u32]> {
        self.writes.get(kernel).map(Vec::as_slice)
    }

    pub(crate) fn original(reason: UncheckedReason, message: String) -> ModulePlan {
        ModulePlan {
            parts: Vec::new(),
            entries: FxHashMap::default(),
            variables: Vec::new(),
            uses_lookups: false,
            instruments_functions: false,
            uses_device_heap: false,
            stack_is_unknown: false,
            writes: FxHashMap::default(),
            unchecked: OnceLock::from((reason, message)),
        }
    }

    /// The plan of a kernel by its mangled name.
    pub fn entry(&self, name: &str) -> Option<&Arc<EntryPlan>> {
        self.entries.get(name)
    }

    /// The kernels that have an instrumented copy: mangled name and name of
    /// the copy.
    pub fn checked_entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .values()
            .filter_map(|entry| Some((entry.name.as_str(), entry.checked_name.as_deref()?)))
    }

    /// Variables in global and constant memory, by name. Their addresses must be reported to
    /// [`crate::Allocations::variable_resolved`] before kernels of the module run,
    /// or lookups of pointers to them find nothing.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(String::as_str)
    }

    /// Whether code of the module reads the device's lookup tables.
    pub fn uses_lookups(&self) -> bool {
        self.uses_lookups
    }

    /// Whether device functions of the module carry checks. Some may be checked
    /// in place, and need the metadata however a kernel is launched.
    pub fn instruments_functions(&self) -> bool {
        self.instruments_functions
    }

    /// Whether code of the module allocates on the device heap.
    pub fn uses_device_heap(&self) -> bool {
        self.uses_device_heap
    }

    /// Whether code with checks may need any amount of stack.
    pub(crate) fn stack_is_unknown(&self) -> bool {
        self.stack_is_unknown
    }

    /// Whether the metadata is needed however a kernel is launched.
    pub(crate) fn changes_originals(&self) -> bool {
        self.instruments_functions || self.uses_device_heap
    }

    /// Whether a kernel of the module allocates with the driver's own
    /// device-side `malloc`.
    pub fn uses_device_malloc(&self) -> bool {
        self.entries.values().any(|entry| entry.uses_device_malloc)
    }

    /// Why kernels of the module run unchecked, and the details.
    pub fn unchecked(&self) -> Option<(UncheckedReason, String)> {
        self.unchecked.get().cloned()
    }

    pub(crate) fn unchecked_reason(&self) -> Option<UncheckedReason> {
        self.unchecked.get().map(|(reason, _)| *reason)
    }

    /// The device refused its code. An earlier reason is kept.
    pub(crate) fn reject(&self, message: String) {
        let _ = self.unchecked.set((UncheckedReason::Rejected, message));
    }
}

/// Offsets of the parameters through which a kernel writes, if it writes
/// through nothing else. Functions that it may call are not distinguished.
fn written(part: &Instrumented, entry: &EntryPlan) -> Option<Vec<u32>> {
    let is_entry = |name: &str| part.entries.iter().any(|entry| entry.name == name);
    let mut offsets = Vec::new();
    let theirs = part
        .sites
        .iter()
        .filter(|site| site.function == entry.name || !is_entry(&site.function));
    for site in theirs.filter(|site| site.kind != AccessKind::Read) {
        if !matches!(site.space, Space::Global | Space::Generic) {
            continue;
        }
        match site.provenance {
            Provenance::KernelParameter { offset } if site.function == entry.name => {
                if !offsets.contains(&offset) {
                    offsets.push(offset);
                }
            }
            Provenance::Variable => {}
            _ => return None,
        }
    }
    // Instructions that are not known may write anything.
    entry.coverage.unchecked_sites.is_empty().then_some(offsets)
}

/// The sites of one instrumented text.
#[derive(Debug)]
pub(crate) struct PartPlan {
    pub tag: u64,
    sites: Vec<AccessSite>,
    /// Members of each group, as indices into `sites`.
    groups: FxHashMap<SiteId, Vec<u32>>,
    /// Of each site, the first one that is the same access of the source; made when it
    /// is first asked for.
    first: OnceLock<Vec<SiteId>>,
}

impl PartPlan {
    pub(crate) fn new(tag: u64, sites: Vec<AccessSite>) -> PartPlan {
        let mut groups: FxHashMap<SiteId, Vec<u32>> = FxHashMap::default();
        for (index, site) in sites.iter().enumerate() {
            groups.entry(site.group).or_default().push(index as u32);
        }
        PartPlan {
            tag,
            sites,
            groups,
            first: OnceLock::new(),
        }
    }

    /// The first site that is the same access of the source as this one: copies of an
    /// unrolled loop's body are.
    pub fn first_like(&self, site: SiteId) -> SiteId {
        let first = self.first.get_or_init(|| first_of_each(&self.sites));
        let index = (site.0 as usize).checked_sub(1);
        let known = index.and_then(|index| first.get(index));
        known.copied().unwrap_or(site)
    }

    /// The sites that share the check which a record names. Empty if the
    /// record names no site of this text.
    pub fn group(&self, site: SiteId) -> impl Iterator<Item = &AccessSite> {
        let group = self.site(site).map_or(site, |site| site.group);
        let members = self.groups.get(&group).map_or(&[][..], Vec::as_slice);
        members.iter().map(|index| &self.sites[*index as usize])
    }

    fn site(&self, id: SiteId) -> Option<&AccessSite> {
        self.sites.get((id.0 as usize).checked_sub(1)?)
    }
}

/// See [`PartPlan::first_like`].
fn first_of_each(sites: &[AccessSite]) -> Vec<SiteId> {
    let mut at: FxHashMap<(&str, &SourceLocation), Vec<&AccessSite>> = FxHashMap::default();
    let first = |site: &AccessSite, known: &[&AccessSite]| {
        let mut known = known.iter();
        let same = known.find(|other| {
            (other.kind, other.space) == (site.kind, site.space)
                && other.provenance == site.provenance
                && other.object == site.object
                && !other.is_free()
        });
        same.map_or(site.id, |other| other.id)
    };
    let firsts = sites.iter().map(|site| {
        let Some(source) = &site.source else {
            return site.id;
        };
        let known = at.entry((&site.function, source)).or_default();
        let id = first(site, known);
        if id == site.id {
            known.push(site);
        }
        id
    });
    firsts.collect()
}
