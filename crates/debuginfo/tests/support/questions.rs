//! Every query of a module's debug information. Each must return for any input;
//! the property tests and the fuzz target use this file.

use debuginfo::{DebugInfo, TypeId};

/// Makes every query of a module; none if it is no PTX. Returns whether its
/// debug information could be read.
pub fn ask(text: &str) -> bool {
    let Ok(module) = ptx::parse(text) else {
        return false;
    };
    let info = match DebugInfo::of(&module) {
        Ok(info) => info,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let types = &info.types;
    let mut ids: Vec<TypeId> = (0..)
        .map(TypeId)
        .take_while(|id| types.get(*id).is_some())
        .take(64)
        .collect();
    ids.extend(info.variables.values().filter_map(|variable| variable.ty));
    for (function, locals) in &info.functions {
        for object in info.frame_objects(function) {
            assert!(object.size > 0, "{object:?}");
            ids.push(object.ty);
        }
        for local in locals {
            ids.extend(local.ty);
            info.parameter(function, &local.name);
        }
    }
    for ty in ids {
        let size = types.size(ty);
        for offset in [0, 1, 4, 8, u64::MAX] {
            let found = [types.array_at(ty, offset), types.scalar_at(ty, offset)];
            for (_, inner) in found.into_iter().flatten() {
                let end = types
                    .size(inner)
                    .and_then(|inner| offset.checked_add(inner));
                assert!(types.get(inner).is_some());
                // What lies in a type does not reach out of it.
                if let (Some(size), Some(end)) = (size, end) {
                    assert!(offset < size || end == offset, "{ty:?} at {offset}");
                }
            }
        }
    }
    true
}
