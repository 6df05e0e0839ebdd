//! From what the program loads to what the driver is given.

use crate::plan::{ModulePart, ModulePlan, Prepared};
use cache::{Cache, Key};
use fatbin::Kind;
use instrument::{Instrumented, Options};
use model::layout::shadow::Encoding;
use model::{Checked, UncheckedReason};
use std::borrow::Cow;
use std::sync::Arc;

/// PTX larger than this is taken for a decompression bomb. The largest module
/// seen in the wild is two orders of magnitude smaller.
const PTX_LIMIT: u64 = 1 << 30;

/// What is to be done to modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing.
    Nothing,
    /// They are only looked at, to know which memory their kernels reach.
    Look,
    /// These accesses are checked against their bounds.
    Bounds {
        /// Which.
        checked: Checked,
        /// Threads that fail a check trap.
        trap: bool,
        /// Accesses in loops are checked in each pass.
        in_place: bool,
        /// Checks are against shadow memory.
        shadow: Option<Encoding>,
    },
    /// Calls of device-side `malloc` and `free` go to the heap that is watched;
    /// modules without such calls are only looked at.
    DeviceHeap,
}

impl Wanted {
    /// What does all that either asks for: each does what those before it do.
    pub(crate) fn or(self, other: Wanted) -> Wanted {
        let more = |wanted: Wanted| match wanted {
            Wanted::Nothing => 0,
            Wanted::Look => 1,
            Wanted::DeviceHeap => 2,
            Wanted::Bounds { .. } => 3,
        };
        if more(other) > more(self) {
            other
        } else {
            self
        }
    }

    /// Whether the driver gets something else than the program's own module.
    fn changes(self, parts: &[Instrumented], launches_itself: bool) -> bool {
        match self {
            Wanted::Nothing | Wanted::Look => false,
            Wanted::Bounds { .. } => true,
            Wanted::DeviceHeap => {
                let is_linked =
                    |part: &Instrumented| launches_itself || part.device_runtime.is_none();
                parts.iter().any(|part| part.uses_device_heap) && parts.iter().all(is_linked)
            }
        }
    }
}

/// Why a module is loaded as it is, in words for the user.
type Refusal = (UncheckedReason, String);

/// Prepares a module of one part or of several that are linked together.
/// `capability` is the device's; an error text if it is not known.
/// `launches_itself`: the device provides the CUDA device runtime to PTX. `cache`: where
/// what was made of the same texts before is found.
pub(crate) fn prepare(
    parts: &[ModulePart<'_>],
    capability: Result<u32, String>,
    launches_itself: bool,
    wanted: Wanted,
    cache: Option<&Cache>,
) -> Prepared {
    let original = |(reason, message): Refusal, ptx| Prepared::Original {
        plan: Arc::new(ModulePlan::original(reason, message)),
        ptx,
    };
    let texts = match capability
        .map_err(|message| (UncheckedReason::Failed, message))
        .and_then(|c| texts(parts, c))
    {
        Ok(texts) => texts,
        Err(refusal) => return original(refusal, None),
    };
    let checked = match wanted {
        Wanted::Bounds { checked, .. } => checked,
        Wanted::Look | Wanted::DeviceHeap => Checked::default(),
        Wanted::Nothing => {
            let message = "checking is switched off".to_string();
            return original((UncheckedReason::Excluded, message), Some(texts));
        }
    };
    let (trap, in_place, shadow) = match wanted {
        Wanted::Bounds {
            trap,
            in_place,
            shadow,
            ..
        } => (trap, in_place, shadow),
        _ => (false, false, None),
    };
    let instrumented = |checked| -> Result<Vec<_>, _> {
        let options = Options {
            checked,
            trap,
            in_place,
            shadow,
        };
        let one = |text: &String| match without_wrappers(text, wanted) {
            Some(text) => instrument::instrument(&text, &options),
            None => instrument::instrument(text, &options),
        };
        texts.iter().map(one).collect()
    };
    let make = || {
        let made = instrumented(checked);
        match &made {
            Ok(parts) if wanted == Wanted::DeviceHeap && wanted.changes(parts, launches_itself) => {
                instrumented(Checked::NONE)
            }
            _ => made,
        }
    };
    let made = match cache {
        Some(cache) => kept(cache, &key(&texts, launches_itself, wanted), make),
        None => make(),
    };
    if let (Ok(parts), Wanted::Bounds { .. }, false) = (&made, wanted, launches_itself)
        && let Some(function) = parts.iter().find_map(|part| part.device_runtime.as_deref())
    {
        let message = format!(
            "the module calls `{function}` of the CUDA device runtime, which the driver does not link with PTX"
        );
        return original((UncheckedReason::DeviceRuntime, message), Some(texts));
    }
    match made {
        Ok(parts) if !wanted.changes(&parts, launches_itself) => Prepared::Original {
            plan: Arc::new(ModulePlan::analysed(parts)),
            ptx: Some(texts),
        },
        Ok(mut parts) => {
            let ptx = parts
                .iter_mut()
                .map(|part| std::mem::take(&mut part.text))
                .collect();
            Prepared::Instrumented {
                ptx,
                plan: Arc::new(ModulePlan::instrumented(parts)),
            }
        }
        Err(error) => original(
            (UncheckedReason::NotInstrumentable, error.to_string()),
            Some(texts),
        ),
    }
}

/// The text in which the wrappers of single instructions lie where they are
/// called, so that findings name the line of the call; `None` if there are none,
/// or if the driver may get the program's own text.
fn without_wrappers(text: &str, wanted: Wanted) -> Option<String> {
    match wanted {
        Wanted::Bounds { .. } => instrument::without_wrappers(text),
        Wanted::Nothing | Wanted::Look | Wanted::DeviceHeap => None,
    }
}

/// What decides what is made of texts, besides Ringfence itself.
fn key(texts: &[String], launches_itself: bool, wanted: Wanted) -> Key {
    let how = format!("{wanted:?} {launches_itself}");
    let key = Key::of("instrumented module").and(how.as_bytes());
    let all = texts.iter().fold(key, |key, text| key.and(text.as_bytes()));
    all.key()
}

/// What was made before, or else is made and kept.
fn kept<E>(
    cache: &Cache,
    key: &Key,
    make: impl FnOnce() -> Result<Vec<Instrumented>, E>,
) -> Result<Vec<Instrumented>, E> {
    if let Some(bytes) = cache.get(key) {
        match instrument::from_bytes(&bytes) {
            Some(parts) => return Ok(parts),
            None => cache.reject(key),
        }
    }
    let made = make()?;
    if let Some(bytes) = instrument::to_bytes(&made) {
        cache.put(key, &bytes);
    }
    Ok(made)
}

/// The PTX of every part, for this device.
fn texts(parts: &[ModulePart<'_>], capability: u32) -> Result<Vec<String>, Refusal> {
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            ModulePart::Ptx(text) => texts.push((*text).to_string()),
            ModulePart::Elf(_) => {
                return Err((
                    UncheckedReason::NoPtx,
                    "the module is machine code without PTX".into(),
                ));
            }
            ModulePart::Fatbin(bytes) => texts.extend(fatbin_text(bytes, capability)?),
        }
    }
    if texts.is_empty() {
        return Err((UncheckedReason::NoPtx, "the module holds no code".into()));
    }
    Ok(texts)
}

/// The best PTX of a fat binary; `None` if it is empty, as the first part of a
/// program built with -rdc=true is, or if it is NVIDIA's device runtime, which
/// every such program carries and only those need that launch from the device.
fn fatbin_text(bytes: &[u8], capability: u32) -> Result<Option<String>, Refusal> {
    let broken = |what: &str, error: &dyn std::fmt::Display| {
        (
            UncheckedReason::NotInstrumentable,
            format!("{what}: {error}"),
        )
    };
    let entries =
        fatbin::parse(bytes).map_err(|error| broken("the fat binary cannot be read", &error))?;
    if entries.is_empty() {
        return Ok(None);
    }
    let Some(entry) = fatbin::best_ptx(&entries, capability) else {
        if fatbin::is_device_runtime(&entries) {
            return Ok(None);
        }
        let ptx = entries
            .iter()
            .filter(|entry| entry.kind == Kind::Ptx)
            .map(|entry| format!("compute_{}", entry.arch));
        let found = ptx.collect::<Vec<_>>().join(", ");
        let message = if found.is_empty() {
            "the fat binary holds no PTX; build with `-gencode arch=compute_XX,code=compute_XX`"
                .to_string()
        } else {
            format!("the fat binary's PTX ({found}) does not fit an sm_{capability} device")
        };
        return Err((UncheckedReason::NoPtx, message));
    };
    let payload = entry
        .payload(PTX_LIMIT)
        .map_err(|error| broken("PTX in the fat binary cannot be read", &error))?;
    let text = match payload {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(str::to_string),
        Cow::Owned(bytes) => String::from_utf8(bytes).map_err(|error| error.utf8_error()),
    };
    text.map(Some)
        .map_err(|error| broken("PTX in the fat binary is not text", &error))
}
