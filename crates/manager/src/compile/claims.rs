//! What the worker that fences says about its text, compared with what the judge has
//! found in it. The worker reads hostile bytes: these may have made it say anything.

use super::steps::{Claims, Judged, Place};
use crate::quota::RELOCATIONS;

/// Claims that do not fit the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refuted {
    #[error("its initializers hold {0} addresses; at most {RELOCATIONS} are taken")]
    Many(usize),
    #[error("an initializer's address lies outside of its variable")]
    Outside,
    #[error("an initializer names a variable that there is not")]
    Unknown,
}

/// Whether each address is written inside of a variable of the module's own.
/// Constant variables know their size: the driver's bounds are compared when they are
/// written.
pub(super) fn check(claims: &Claims, judged: &Judged) -> Result<(), Refuted> {
    if claims.relocations.len() > RELOCATIONS {
        return Err(Refuted::Many(claims.relocations.len()));
    }
    for relocation in &claims.relocations {
        if relocation.target >= judged.globals.len() {
            return Err(Refuted::Unknown);
        }
        let bytes = u64::from(relocation.bytes);
        if !matches!(bytes, 1 | 2 | 4 | 8) {
            return Err(Refuted::Outside);
        }
        match &relocation.holder {
            Place::Placed(number) => {
                let global = judged.globals.get(*number).ok_or(Refuted::Unknown)?;
                let end = relocation.offset.checked_add(bytes);
                if end.is_none_or(|end| end > global.size) {
                    return Err(Refuted::Outside);
                }
            }
            // Not the table, which is no variable of the program's.
            Place::Constant(name) if judged.constants.contains(name) => {}
            Place::Constant(_) => return Err(Refuted::Unknown),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::steps::{Global, Relocation};
    use super::*;
    use model::layout::fence::VARIABLE;

    #[test]
    fn an_address_is_written_only_inside_of_a_variable_of_the_program() {
        let judged = Judged {
            kernels: Vec::new(),
            constants: vec!["kept".into()],
            globals: vec![Global {
                name: "table".into(),
                size: 16,
                alignment: 8,
            }],
        };
        let good = Relocation {
            holder: Place::Placed(0),
            offset: 8,
            bytes: 8,
            shift: 0,
            target: 0,
            addend: -1,
        };
        let checked = |change: &dyn Fn(&mut Relocation)| {
            let mut changed = good.clone();
            change(&mut changed);
            let claims = Claims {
                relocations: vec![good.clone(), changed],
                may_fail: false,
            };
            check(&claims, &judged)
        };
        let constant = |name: &str| Place::Constant(name.into());
        assert_eq!(checked(&|_| {}), Ok(()));
        assert_eq!(checked(&|one| one.holder = constant("kept")), Ok(()));
        assert_eq!(checked(&|one| one.offset = 9), Err(Refuted::Outside));
        assert_eq!(checked(&|one| one.offset = u64::MAX), Err(Refuted::Outside));
        assert_eq!(checked(&|one| one.bytes = 16), Err(Refuted::Outside));
        assert_eq!(checked(&|one| one.bytes = 0), Err(Refuted::Outside));
        assert_eq!(checked(&|one| one.target = 1), Err(Refuted::Unknown));
        assert_eq!(
            checked(&|one| one.holder = Place::Placed(1)),
            Err(Refuted::Unknown)
        );
        assert_eq!(
            checked(&|one| one.holder = constant(VARIABLE)),
            Err(Refuted::Unknown)
        );
        let many = Claims {
            relocations: vec![good.clone(); RELOCATIONS + 1],
            may_fail: false,
        };
        assert_eq!(check(&many, &judged), Err(Refuted::Many(RELOCATIONS + 1)));
    }
}
