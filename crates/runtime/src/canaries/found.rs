//! From what a check reports of a canary to a finding.

use super::Canaries;
use super::history::{self, Launched, Reach};
use crate::findings::{self, Key};
use model::layout::Record;
use model::layout::guard::SIDE_BEFORE;
use model::{
    DeviceAddress, Finding, KernelArgument, KernelRun, Overwritten, Relation, Rule, Subject,
};

/// Bytes of content that a finding shows.
const SHOWN: u64 = 16;

/// A canary that was found overwritten.
struct Damage {
    serial: u64,
    check: u64,
    is_before: bool,
    lowest: u64,
    highest: u64,
    bytes: u64,
    content: [u8; SHOWN as usize],
}

impl Damage {
    /// `layout::canary::CANARY_RECORD`.
    fn of(record: &Record) -> Damage {
        let mut content = [0; SHOWN as usize];
        content[..8].copy_from_slice(&record.base.to_le_bytes());
        content[8..].copy_from_slice(&record.size.to_le_bytes());
        Damage {
            serial: record.address,
            check: record.launch,
            is_before: u64::from(record.site) == SIDE_BEFORE,
            lowest: record.thread.into(),
            highest: record.block_x.into(),
            bytes: record.block_yz.into(),
            content,
        }
    }

    fn overwritten(&self, farthest: u64) -> Overwritten {
        let shown = (self.highest + 1 - self.lowest).min(SHOWN) as usize;
        Overwritten {
            bytes: self.bytes,
            farthest,
            found: self.content[..shown].to_vec(),
            pixel: None,
        }
    }
}

impl Canaries {
    /// Which launches can have overwritten a canary of a buffer that a check
    /// found damaged.
    pub(crate) fn candidates(&self, check: u64, slot: Option<u32>, serial: u64) -> Vec<Launched> {
        self.checks.candidates(check, slot, serial)
    }

    /// A check has found a canary overwritten, and mended it.
    pub(super) fn found(&self, record: &Record) {
        let damage = Damage::of(record);
        let extent = self.table.lock().extent(damage.serial);
        let Some(extent) = extent.filter(|_| damage.highest >= damage.lowest) else {
            let message = format!(
                "a record names canaries of buffer {}, which never existed (the program may have written over the \
                 record ring); it is ignored",
                damage.serial
            );
            return self.env.error(&message, false);
        };
        let near = self
            .memory
            .read(|registry| findings::near(registry, extent, damage.serial));
        let Some(near) = near else { return };
        let before = u64::from(near.redzones().before);
        let slot = near.redzones().slot;
        let candidates = self.candidates(damage.check, slot, damage.serial);
        let (relation, farthest, address) = if damage.is_before {
            let nearest = before.saturating_sub(damage.highest);
            let farthest = before.saturating_sub(damage.lowest);
            let address = extent.base.0.saturating_sub(nearest);
            (Relation::Before(nearest), farthest, address)
        } else {
            let address = extent.end().0 + damage.lowest;
            (Relation::After(damage.lowest), damage.highest, address)
        };
        let mut names = history::names(&candidates).into_iter();
        let kernel = names.next().unwrap_or_default();
        let others: Vec<String> = names.collect();
        let first = candidates
            .iter()
            .find(|launched| !launched.kernels.is_empty());
        let argument = first.filter(|_| others.is_empty()).and_then(|launched| {
            let Reach::Named(named) = &launched.reach else {
                return None;
            };
            let offset = named
                .iter()
                .find(|(_, _, serial)| *serial == damage.serial)?
                .0;
            let entry = launched.kernels.first()?.entry.as_ref()?;
            let index = entry
                .parameters
                .iter()
                .position(|slot| slot.offset == offset)?;
            Some(KernelArgument {
                index: index as u32,
                name: None,
            })
        });
        let index = argument.as_ref().map(|argument| argument.index);
        let key = Key::Canary(kernel.clone(), index, damage.is_before);
        let Some(id) = self.reporter.count(key) else {
            return;
        };
        let callers = self.env.callers();
        let finding = Finding {
            rule: Rule::CanaryOverwritten,
            address: DeviceAddress(address),
            subject: Subject::Kernel(KernelRun {
                kernel,
                argument,
                overwritten: damage.overwritten(farthest),
                others,
                watched: None,
                launch: first.map_or(0, |launched| launched.launch),
                launched_at: first.map_or_else(Vec::new, |launched| {
                    host::stacks::resolve(&launched.stack, callers, None)
                }),
            }),
            intended: Some(near.at(relation, callers)),
            nearest: None,
            occurrences: 1,
        };
        self.reporter.publish(id, &finding);
    }
}
