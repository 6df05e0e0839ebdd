//! What is computed of a tenant's code, by functions of bytes alone. They run in
//! workers: what they make of hostile bytes may take any time and any memory.
//!
//! ```text
//! fence: bytes ▸ fatbin ▸ PTX ▸ fence ▸ text, relocations
//! judge:                              text ▸ verify_contained ▸ kernels, variables
//! ```
//!
//! `judge` gets the text alone, and never what `fence` says about it.

use instrument::{FenceError, FenceForm, Holder, fence, verify_contained};
use model::layout::fence::{VARIABLE, WORKSPACE};
use ptx::VariableSpace;
use serde::{Deserialize, Serialize};

/// Bytes of parameters at most (PTX ISA, 5.1.6.1).
const PARAMETERS: u32 = 32_764;

/// Errors of a module that are listed.
const LISTED: usize = 8;

/// Bytes of a list of errors.
const TEXT: usize = 16 << 10;

/// Why a module is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fault {
    /// No fat binary and no PTX.
    Unreadable,
    /// Only machine code.
    NoPtx,
    /// No PTX that a pass could work on.
    Syntax,
    /// It holds what cannot be fenced.
    Unfenced,
    /// The verifier refuses it.
    Verifier,
    /// A kernel takes more parameters than PTX allows.
    Parameters,
}

/// Why a module is not taken, and what about it, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotTaken {
    pub(crate) fault: Fault,
    pub(crate) about: String,
}

fn not_taken(fault: Fault, about: impl std::fmt::Display) -> NotTaken {
    let mut about = about.to_string();
    while about.len() > TEXT {
        about.truncate(about.floor_char_boundary(TEXT));
    }
    NotTaken { fault, about }
}

/// What `fence` says about its text. None of it is believed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) relocations: Vec<Relocation>,
    /// The text counts threads that it retires.
    pub(crate) may_fail: bool,
}

/// As [`instrument::Relocation`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Relocation {
    pub(crate) holder: Place,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    pub(crate) shift: u32,
    pub(crate) target: usize,
    pub(crate) addend: i64,
}

/// As [`instrument::Holder`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Place {
    Placed(usize),
    Constant(String),
}

impl Relocation {
    /// What is written if the target was placed at this address.
    pub(crate) fn value(&self, target: u64) -> Vec<u8> {
        let holder = Holder::Placed(0);
        let Relocation {
            offset,
            bytes,
            shift,
            target: number,
            addend,
            ..
        } = *self;
        let relocation = instrument::Relocation {
            holder,
            offset,
            bytes,
            shift,
            target: number,
            addend,
        };
        relocation.value(target)
    }
}

impl From<instrument::Relocation> for Relocation {
    fn from(relocation: instrument::Relocation) -> Relocation {
        Relocation {
            holder: match relocation.holder {
                Holder::Placed(number) => Place::Placed(number),
                Holder::Constant(name) => Place::Constant(name),
            },
            offset: relocation.offset,
            bytes: relocation.bytes,
            shift: relocation.shift,
            target: relocation.target,
            addend: relocation.addend,
        }
    }
}

/// What a text that was accepted declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Judged {
    pub(crate) kernels: Vec<Entry>,
    /// Constant variables that are the program's.
    pub(crate) constants: Vec<String>,
    /// Variables in global memory, in the order of the text, in which the table
    /// holds their addresses. The verifier has accepted accesses to so many bytes
    /// from each address on.
    pub(crate) globals: Vec<Global>,
}

/// A kernel of PTX.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Offset and bytes of each parameter of the program's.
    pub(crate) parameters: Vec<(u32, u32)>,
    /// Bytes of all of these.
    pub(crate) parameter_bytes: u32,
    /// Offset of the parameter that the manager adds, if the kernel has it
    /// ([`WORKSPACE`]).
    pub(crate) workspace: Option<u32>,
    pub(crate) ends: Ends,
    /// Bytes of shared memory that each block must have
    /// (`model::layout::fence::ROOM`).
    pub(crate) room: u32,
    /// Blocks from which on a grid is large (`model::layout::fence::stop::GRID_STEPS`).
    pub(crate) large: u64,
}

/// Which launches of a kernel are proved to end once they must, although threads wait
/// for each other in hardware ([`instrument::Ends`]). The number is the line of the
/// judged text that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ends {
    Always,
    InFlatBlocks(u32),
    Unknown(u32),
}

impl Ends {
    fn of(kernel: &str, contained: &instrument::Contained) -> Ends {
        let waiting = contained.waiting.iter().find(|one| one.kernel == kernel);
        match waiting.map(|one| (one.ends, one.line)) {
            None | Some((instrument::Ends::Always, _)) => Ends::Always,
            Some((instrument::Ends::InFlatBlocks, line)) => Ends::InFlatBlocks(line),
            Some((instrument::Ends::Unknown, line)) => Ends::Unknown(line),
        }
    }

    /// The line that leaves it in doubt whether a launch with blocks of this size ends.
    pub(crate) fn doubt(self, [x, y, z]: [u32; 3]) -> Option<u32> {
        match self {
            Ends::Always => None,
            Ends::InFlatBlocks(_) if (y, z) == (1, 1) || x.is_multiple_of(32) => None,
            Ends::InFlatBlocks(line) | Ends::Unknown(line) => Some(line),
        }
    }
}

/// A variable in global memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Global {
    pub(crate) name: String,
    /// Bytes.
    pub(crate) size: u64,
    /// What its address is a multiple of.
    pub(crate) alignment: u32,
}

/// The PTX in what a tenant sends: at most `limit` bytes.
fn source(bytes: &[u8], capability: u32, limit: u64) -> Result<String, NotTaken> {
    let unreadable = |error: &dyn std::fmt::Display| not_taken(Fault::Unreadable, error);
    let text = match driver::image::parts_of_file(bytes).first() {
        Some(fatbin::ModulePart::Fatbin(bytes)) => {
            let entries = fatbin::parse(bytes).map_err(|error| unreadable(&error))?;
            let best = fatbin::best_ptx(&entries, capability);
            let best = best.ok_or_else(|| not_taken(Fault::NoPtx, ""))?;
            let payload = best.payload(limit);
            let payload = payload.map_err(|error| unreadable(&error))?.into_owned();
            String::from_utf8(payload).map_err(|error| unreadable(&error))?
        }
        Some(fatbin::ModulePart::Ptx(text)) => (*text).to_owned(),
        Some(fatbin::ModulePart::Elf(_)) => return Err(not_taken(Fault::NoPtx, "")),
        None => return Err(unreadable(&"it is no text")),
    };
    Ok(text.trim_end_matches('\0').to_owned())
}

/// How accesses are kept in the partition.
pub(super) const FORM: FenceForm = FenceForm::Mask;

/// Fences what a tenant sends.
pub(super) fn fenced(
    bytes: &[u8],
    capability: u32,
    limit: u64,
) -> Result<(Claims, String), NotTaken> {
    let source = source(bytes, capability, limit)?;
    let fenced = fence(&source, FORM).map_err(|error| match error {
        FenceError::Module(_) => not_taken(Fault::Syntax, error),
        FenceError::Refused(_) => not_taken(Fault::Unfenced, error),
    })?;
    let claims = Claims {
        relocations: fenced.relocations.into_iter().map(Into::into).collect(),
        may_fail: fenced.counts.retiring > 0,
    };
    Ok((claims, fenced.text))
}

/// Has the verifier judge a text, which may come from anywhere.
pub(super) fn judged(text: &[u8]) -> Result<Judged, NotTaken> {
    let verifier = |about: &str| not_taken(Fault::Verifier, about);
    let text = std::str::from_utf8(text).map_err(|_| verifier("it is no text"))?;
    if text.contains('\0') {
        return Err(verifier("it holds a zero"));
    }
    let contained = verify_contained(text).map_err(|errors| {
        let listed = errors.iter().take(LISTED);
        let lines: Vec<String> = listed.map(ToString::to_string).collect();
        verifier(&lines.join("\n"))
    })?;
    let module = ptx::parse(text).map_err(|_| verifier("it is no PTX"))?;
    let mut kernels = Vec::new();
    for function in module.functions().filter(|function| function.is_entry) {
        let (parameters, bytes) = instrument::parameter_block(function);
        if bytes > PARAMETERS {
            return Err(not_taken(Fault::Parameters, function.name));
        }
        let mut slots: Vec<_> = parameters.iter().map(|s| (s.offset, s.size)).collect();
        let last = function.parameters.last();
        let is_added = last.is_some_and(|last| last.name == WORKSPACE && last.size() == Some(8));
        let workspace = if is_added { slots.pop() } else { None };
        let end = slots.last().map_or(0, |(offset, size)| offset + size);
        let of = |list: &[(String, u64)]| {
            let found = list.iter().find(|(kernel, _)| kernel == function.name);
            found.map(|(_, number)| *number)
        };
        kernels.push(Entry {
            name: function.name.to_owned(),
            parameters: slots,
            parameter_bytes: workspace.map_or(bytes, |_| end),
            workspace: workspace.map(|(offset, _)| offset),
            ends: Ends::of(function.name, &contained),
            room: of(&contained.rooms).map_or(0, |room| u32::try_from(room).unwrap_or(u32::MAX)),
            large: of(&contained.grids).unwrap_or(u64::MAX),
        });
    }
    let in_space = |space| {
        let variables = module.variables();
        variables.filter(move |variable| variable.space == space && variable.name != VARIABLE)
    };
    let constants = in_space(VariableSpace::Const);
    let globals = in_space(VariableSpace::Global).map(|variable| {
        Some(Global {
            name: variable.name.to_owned(),
            size: variable.size()?,
            alignment: variable.alignment().max(1),
        })
    });
    let globals: Option<Vec<Global>> = globals.collect();
    Ok(Judged {
        kernels,
        constants: constants.map(|variable| variable.name.to_owned()).collect(),
        globals: globals.ok_or_else(|| verifier("a variable has no size"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
.version 8.0
.target sm_75
.address_size 64
.global .align 4 .b8 first[8];
.const .align 4 .b8 kept[4];
.global .align 16 .u64 second[2] = {first, first+4};
.visible .entry work(.param .u64 a, .param .u32 b) { .reg .b64 %p; .reg .b32 %v;
ld.param.u64 %p, [a]; ld.global.u32 %v, [%p]; st.global.u32 [first], %v; ret; }
";

    #[test]
    fn the_parameter_that_the_manager_adds_is_none_of_the_programs() {
        let kernel = |parameters: &str| {
            format!(
                ".version 8.0\n.target sm_75\n.address_size 64\n\
                 .visible .entry k({parameters}) {{ .reg .b32 %r<3>;\n\
                 mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2; ret; }}\n"
            )
        };
        let cases = [
            (
                ".param .u64 a, .param .u8 b",
                vec![(0, 8), (8, 1)],
                9,
                Some(16),
            ),
            ("", vec![], 0, Some(0)),
        ];
        for (parameters, slots, bytes, workspace) in cases {
            let source = kernel(parameters);
            let (_, text) = fenced(source.as_bytes(), 75, 1 << 20).unwrap();
            let judged = judged(text.as_bytes()).unwrap();
            let found = &judged.kernels[0];
            assert_eq!(found.parameters, slots);
            assert_eq!((found.parameter_bytes, found.workspace), (bytes, workspace));
        }
    }

    #[test]
    fn the_judge_names_what_the_text_declares_in_the_order_of_the_table() {
        let (claims, text) = fenced(SOURCE.as_bytes(), 75, 1 << 20).unwrap();
        let judged = judged(text.as_bytes()).unwrap();
        let names: Vec<_> = judged.globals.iter().map(|global| &*global.name).collect();
        assert_eq!(names, ["first", "second"]);
        assert_eq!(
            (judged.globals[1].size, judged.globals[1].alignment),
            (16, 16)
        );
        assert_eq!(judged.constants, ["kept"]);
        assert_eq!(judged.kernels[0].parameters, [(0, 8), (8, 4)]);
        let of_second = |offset, addend| Relocation {
            holder: Place::Placed(1),
            offset,
            bytes: 8,
            shift: 0,
            target: 0,
            addend,
        };
        assert_eq!(claims.relocations, [of_second(0, 0), of_second(8, 4)]);
    }

    #[test]
    fn the_judge_says_which_launches_end() {
        let ends = |statements: &str| {
            let source = SOURCE.replace("ret;", statements);
            let (_, text) = fenced(source.as_bytes(), 75, 1 << 20).unwrap();
            judged(text.as_bytes()).unwrap().kernels[0].ends
        };
        let (flat, deep, rows) = ([64, 1, 1], [16, 4, 1], [32, 2, 2]);
        assert_eq!(ends("bar.sync 0; ret;"), Ends::Always);
        let branch = ".reg .pred %q; .reg .b32 %t; mov.u32 %t, %tid.x; setp.lt.u32 %q, %t, LIMIT; \
                      @%q bra A; bar.warp.sync -1; A: bar.sync 0; ret;";
        let of_rows = ends(&branch.replace("LIMIT", "32"));
        assert!(matches!(of_rows, Ends::InFlatBlocks(_)));
        assert_eq!(of_rows.doubt(flat), None);
        assert_eq!(of_rows.doubt(rows), None);
        assert!(of_rows.doubt(deep).is_some());
        let unknown = ends(&branch.replace("LIMIT", "31"));
        assert!(unknown.doubt(flat).is_some() && unknown.doubt(rows).is_some());
    }

    #[test]
    fn each_fault_has_its_name() {
        let fault = |bytes: &[u8]| fenced(bytes, 75, 1 << 10).unwrap_err().fault;
        assert_eq!(fault(b"\x7fELF and more"), Fault::NoPtx);
        assert_eq!(fault(b"\xff\xfe\xfd\xfc\xfb"), Fault::Unreadable);
        assert_eq!(fault(b"no PTX at all"), Fault::Syntax);
        let refused = SOURCE.replace("ret;", "brkpt; ret;");
        assert_eq!(fault(refused.as_bytes()), Fault::Unfenced);
        assert_eq!(
            judged(SOURCE.as_bytes()).unwrap_err().fault,
            Fault::Verifier
        );
        assert_eq!(judged(b"a\0b").unwrap_err().fault, Fault::Verifier);
    }
}
