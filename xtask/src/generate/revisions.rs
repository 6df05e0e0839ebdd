//! Which symbol `cuGetProcAddress` returns for a name and a version.

use crate::headers::{Function, Item};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;

/// One variant of a function as cuGetProcAddress chooses it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision {
    pub name: String,
    /// First driver version that has it, as in 12030.
    pub since: u32,
    pub symbol: String,
    /// Its per-thread default stream twin.
    pub per_thread: Option<String>,
}

/// Pairs each `PFN_name_vVERSION` of cudaTypedefs.h with the symbol that
/// cuda.h declares: revisions of a name appear in the order of the versions
/// that introduced them, and the counts must agree exactly.
///
/// # Errors
///
/// The two headers do not agree.
pub fn revisions(typedefs: &[Item], functions: &[Function]) -> Result<Vec<Revision>> {
    type Key = (String, &'static str);
    let mut versions: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
    for name in pointer_types(typedefs) {
        let (name, suffix) = split_suffix(name);
        let (base, version) = name
            .rsplit_once("_v")
            .with_context(|| format!("PFN_{name} has no version"))?;
        let version = version
            .parse()
            .with_context(|| format!("PFN_{name} has no version"))?;
        versions
            .entry((base.to_owned(), suffix))
            .or_default()
            .push(version);
    }
    let mut symbols: BTreeMap<Key, Vec<(u32, String)>> = BTreeMap::new();
    for function in functions {
        let (name, suffix) = split_suffix(&function.name);
        let (base, revision) = match name
            .rsplit_once("_v")
            .map(|(base, digits)| (base, digits.parse()))
        {
            Some((base, Ok(revision))) => (base, revision),
            _ => (name, 1),
        };
        symbols
            .entry((base.to_owned(), suffix))
            .or_default()
            .push((revision, function.name.clone()));
    }
    let mut result: BTreeMap<(String, u32), Revision> = BTreeMap::new();
    let mut twins = Vec::new();
    for ((name, suffix), mut found) in symbols {
        let mut since = versions.remove(&(name.clone(), suffix)).unwrap_or_default();
        since.sort_unstable();
        found.sort();
        if since.len() != found.len() {
            bail!("{name}{suffix}: cudaTypedefs.h has versions {since:?}, cuda.h has {found:?}");
        }
        for (since, (revision, symbol)) in since.into_iter().zip(found) {
            if suffix.is_empty() {
                let entry = Revision {
                    name: name.clone(),
                    since,
                    symbol,
                    per_thread: None,
                };
                result.insert((name.clone(), revision), entry);
            } else {
                twins.push(((name.clone(), revision), symbol));
            }
        }
    }
    if let Some(((name, suffix), _)) = versions.into_iter().next() {
        bail!("cudaTypedefs.h has {name}{suffix}, cuda.h has not");
    }
    for (key, symbol) in twins {
        let entry = result
            .get_mut(&key)
            .with_context(|| format!("{symbol} has no legacy twin"))?;
        entry.per_thread = Some(symbol);
    }
    let mut list: Vec<Revision> = result.into_values().collect();
    list.sort();
    Ok(list)
}

fn split_suffix(name: &str) -> (&str, &'static str) {
    for suffix in ["_ptds", "_ptsz"] {
        if let Some(name) = name.strip_suffix(suffix) {
            return (name, suffix);
        }
    }
    (name, "")
}

/// The names of the types `PFN_NAME` among `items`, without the prefix.
pub fn pointer_types(items: &[Item]) -> impl Iterator<Item = &str> {
    items.iter().filter_map(|item| match item {
        Item::Alias { name, .. } => name.strip_prefix("PFN_"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::{Signature, Type};

    fn typedefs(names: &[&str]) -> Vec<Item> {
        let alias = |name: &&str| Item::Alias {
            name: format!("PFN_{name}"),
            of: Type::Void,
        };
        names.iter().map(alias).collect()
    }

    fn functions(names: &[&str]) -> Vec<Function> {
        let function = |name: &&str| Function {
            name: (*name).to_owned(),
            signature: Signature {
                result: Type::Void,
                parameters: Vec::new(),
            },
        };
        names.iter().map(function).collect()
    }

    #[test]
    fn symbols_are_paired_with_versions_in_order() {
        let typedefs = typedefs(&["cuA_v3020", "cuA_v2000", "cuA_v7000_ptsz", "cuB_v12000"]);
        let functions = functions(&["cuB", "cuA_v2", "cuA_v2_ptsz", "cuA"]);
        let revision = |name: &str, since, symbol: &str, per_thread: Option<&str>| Revision {
            name: name.into(),
            since,
            symbol: symbol.into(),
            per_thread: per_thread.map(Into::into),
        };
        assert_eq!(
            revisions(&typedefs, &functions).expect("they agree"),
            [
                revision("cuA", 2000, "cuA", None),
                revision("cuA", 3020, "cuA_v2", Some("cuA_v2_ptsz")),
                revision("cuB", 12000, "cuB", None),
            ]
        );
    }

    #[test]
    fn headers_that_do_not_agree_are_an_error() {
        for (versions, symbols) in [
            (&["cuA_v2000"][..], &["cuA", "cuA_v2"][..]),
            (&["cuA_v2000", "cuB_v2000"], &["cuA"]),
            (&["cuA_v7000_ptsz"], &["cuA_ptsz"]),
        ] {
            let agreed = revisions(&typedefs(versions), &functions(symbols));
            assert!(agreed.is_err(), "{versions:?} {symbols:?}");
        }
    }
}
