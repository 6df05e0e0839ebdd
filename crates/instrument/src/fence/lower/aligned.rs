//! Arrays in shared memory begin at multiples of 16 bytes.
//!
//! Without a fence, ptxas chooses the alignment of arrays itself, and merges loads of four
//! words of a row into one. Behind a fence it does not know which array an address is in.
//! So fences keep the alignment that the analysis finds ([`super::super::shared`]), and for
//! that the arrays have to be declared with it. (A product of matrices in tiles takes 1.25
//! of its native time without, and 1.03 with it: H200, CUDA 13.0.)

use super::super::refuse::Refusals;
use super::super::shared::WIDEST;
use ptx::{Edits, Function, Linkage, Module, Statement, Variable, VariableSpace};

/// Bytes that a kernel's variables have in all, at most, if they are aligned: clearly less
/// than the 48 KiB that a block has without asking (CUDA C++ Programming Guide, table of
/// compute capabilities).
const MOST: u64 = 40 << 10;

/// Raises the alignment of the arrays.
pub(super) fn raise(module: &Module<'_>, _: &mut Refusals<'_>) -> Option<String> {
    let mut edits = Edits::new();
    let functions: Vec<_> = module.functions().collect();
    // A kernel has those of the file and of the functions that it calls, too.
    let of_file: Vec<_> = module.variables().filter(|v| is_shared(v)).collect();
    let of_called = functions.iter().filter(|function| !function.is_entry);
    let common: Vec<_> = of_file
        .into_iter()
        .chain(of_called.flat_map(|function| own(function)))
        .collect();
    let of_common = bytes(&common);
    let mut of_kernels = 0;
    for kernel in functions.iter().filter(|function| function.is_entry) {
        let arrays: Vec<_> = own(kernel).collect();
        let of_kernel = bytes(&arrays);
        of_kernels = of_kernel.max(of_kernels);
        if of_common + of_kernel <= MOST {
            arrays
                .iter()
                .for_each(|array| align(array, module.source, &mut edits));
        }
    }
    if of_common + of_kernels <= MOST {
        common
            .iter()
            .for_each(|array| align(array, module.source, &mut edits));
    }
    (!edits.is_empty()).then(|| edits.apply(module.source))
}

fn is_shared(variable: &Variable<'_>) -> bool {
    variable.space == VariableSpace::Shared
}

/// The variables in shared memory that a function declares.
fn own<'f, 'a>(function: &'f Function<'a>) -> impl Iterator<Item = &'f Variable<'a>> {
    function
        .statements()
        .filter_map(|(_, statement)| match statement {
            Statement::Variable(variable) => Some(variable).filter(|v| is_shared(v)),
            _ => None,
        })
}

/// Bytes of variables, with all gaps that there can be.
fn bytes(variables: &[&Variable<'_>]) -> u64 {
    let sizes = variables
        .iter()
        .map(|variable| variable.size().unwrap_or(0));
    sizes.fold(0, |sum: u64, size| {
        sum.saturating_add(size).saturating_add(WIDEST.into())
    })
}

/// Raises the alignment of an array that is a multiple of the widest load.
fn align(array: &Variable<'_>, source: &str, edits: &mut Edits) {
    const ALIGN: &str = ".align";
    let is_whole = |size: u64| size > 0 && size.is_multiple_of(WIDEST.into());
    let is_own = matches!(array.linkage, Linkage::Local | Linkage::Visible);
    let declared = array.align.filter(|align| *align < WIDEST);
    let Some(declared) = declared.filter(|_| is_own && array.size().is_some_and(is_whole)) else {
        return;
    };
    let (start, end) = (array.span.start, array.name_span.start);
    let before = source.get(start as usize..end as usize).unwrap_or("");
    let number = declared.to_string();
    let found = before.find(ALIGN).map(|at| at + ALIGN.len());
    let found = found.and_then(|at| Some(at + before[at..].find(&number)?));
    let Some(at) = found else { return };
    let at = start + at as u32;
    edits.replace(
        ptx::Span {
            start: at,
            end: at + number.len() as u32,
        },
        WIDEST.to_string(),
    );
}
