//! Random kernels with accesses in and out of bounds, over all spaces, against
//! a model: every access that leaves its object is reported with the right
//! rule, place and thread, nothing else is, and what is in bounds does what it
//! would without checks.
//!
//! What is proved is checked all the same, and must not be found wrong.
//!
//! `RINGFENCE_RANDOM_KERNELS` says how many kernels are tried, and
//! `RINGFENCE_RANDOM_SPACES` in which spaces accesses may leave their object
//! (all of `global,shared,local,const,param` where it says nothing); in the
//! others all are in bounds.

#[path = "random/model.rs"]
mod model;
#[path = "random/text.rs"]
mod text;

use super::{Slice, with};
use ::model::{DeviceAddress, Finding};
use driver::Driver;
use emulate::device::Launch;
use model::{
    Access, Action, Byte, Guard, Kernel, MOST_THREADS, Object, Prediction, Repeat, Root, Shape,
    Variable, Violation,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use runtime::{LaunchShape, ModulePlan};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Kernels tried where nothing else is asked for.
const KERNELS: u32 = 200;

fn variable() -> impl Strategy<Value = Variable> {
    prop_oneof![
        1 => Just(Variable::Zero),
        3 => Just(Variable::Thread),
        3 => Just(Variable::Global),
        1 => prop::sample::select(vec![1, 3, 7, 15]).prop_map(Variable::Masked),
        1 => (0..8u32).prop_map(Variable::Turned),
        2 => Just(Variable::Loaded),
    ]
}

fn guard() -> impl Strategy<Value = Guard> {
    prop_oneof![
        2 => Just(Guard::All),
        3 => (0..=MOST_THREADS).prop_map(Guard::Below),
        3 => (0..=MOST_THREADS).prop_map(Guard::BranchBelow),
        3 => (0..MOST_THREADS).prop_map(Guard::Only),
        1 => Just(Guard::Odd),
    ]
}

fn root() -> impl Strategy<Value = Root> {
    prop_oneof![
        4 => Just(Root::Direct),
        1 => Just(Root::Struct),
        1 => Just(Root::Table),
        1 => Just(Root::ThroughShared),
        1 => Just(Root::Selected),
        1 => Just(Root::Function),
    ]
}

/// An access to one of objects of these sizes; `plain`: one of which a launch
/// tells where it goes.
fn access(sizes: [u64; Object::ALL.len()], plain: bool) -> impl Strategy<Value = Access> {
    let shape = prop::sample::select(vec![
        (1, 1),
        (1, 2),
        (1, 4),
        (1, 4),
        (1, 8),
        (2, 4),
        (4, 4),
        (2, 8),
    ]);
    let repeat = (0..6u32, 1..6u32, -1..3i64);
    let far = prop_oneof![12 => Just(0i64), 1 => Just(1 << 20), 1 => Just(-(1 << 16))];
    let place = (any::<bool>(), -6..5i64, far);
    (
        (
            prop::sample::select(Object::ALL.to_vec()),
            root(),
            variable(),
            guard(),
        ),
        (shape, 0..3i64, place, repeat),
        (
            any::<bool>(),
            any::<bool>(),
            prop::option::weighted(0.2, 1..4i64),
        ),
    )
        .prop_map(
            move |(
                (object, root, variable, guard),
                ((lanes, element), scale, (from_end, steps, far), (kind, count, step)),
                (folded, generic, second),
            )| {
                let (root, variable) = match (root, variable) {
                    _ if !plain => (root, variable),
                    (_, Variable::Loaded) => (Root::Direct, Variable::Global),
                    (_, variable) => (Root::Direct, variable),
                };
                let buffer = object.space() == "global" && object != Object::Variable;
                let root = match root {
                    _ if !buffer => Root::Direct,
                    Root::Selected if object.action() != Action::Read => Root::Direct,
                    root => root,
                };
                let plain = root == Root::Function || object.action() == Action::Atomic;
                let (lanes, element) = if plain { (1, 4) } else { (lanes, element) };
                let width = i64::from(lanes * element);
                let end = sizes[object as usize] as i64 / width * width;
                Access {
                    object,
                    root,
                    variable,
                    guard,
                    repeat: match kind {
                        0 => Repeat::Loop(count, step * width),
                        1 => Repeat::Walk(count, step * width),
                        _ => Repeat::Once,
                    },
                    lanes,
                    element,
                    scale: scale * width,
                    constant: if from_end { end } else { 0 } + steps * width + far,
                    folded,
                    // Neither has a window that every PTX version knows.
                    generic: generic && !matches!(object, Object::Const | Object::Parameter),
                    second: second.filter(|_| !plain).map(|steps| steps * width),
                }
            },
        )
}

fn kernel() -> impl Strategy<Value = Kernel> {
    let size = prop_oneof![
        Just(16u64),
        Just(17),
        Just(64),
        Just(100),
        Just(160),
        Just(336),
        Just(1000),
        Just(3000)
    ];
    let sizes = prop::collection::vec(size, Object::ALL.len()).prop_map(|list| {
        let mut sizes = [0; Object::ALL.len()];
        sizes.copy_from_slice(&list);
        // Kernels take few parameters, and `.param` arrays lie side by side.
        sizes[Object::Parameter as usize] = sizes[Object::Parameter as usize]
            .min(160)
            .next_multiple_of(8);
        // An object of a frame ends where the next begins.
        sizes[Object::Local as usize] = sizes[Object::Local as usize].next_multiple_of(16);
        // What is dumped side by side is read by the word.
        sizes[Object::SharedAtomic as usize] =
            sizes[Object::SharedAtomic as usize].next_multiple_of(4);
        sizes
    });
    let loaded = prop::collection::vec(
        prop_oneof![9 => 0..20u32, 1 => 0..400u32],
        MOST_THREADS as usize,
    );
    let shape = prop::sample::select(vec![(2, 40), (1, 1), (1, 32), (3, 32), (2, 33), (1, 96)])
        .prop_map(|(grid, block)| Shape { grid, block });
    (sizes, loaded, shape, any::<bool>()).prop_flat_map(|(sizes, loaded, shape, plain)| {
        let most = if plain { 5 } else { 14 };
        prop::collection::vec(access(sizes, plain), 1..most).prop_map(move |accesses| {
            let mut kernel = Kernel {
                shape,
                sizes,
                loaded: loaded.clone(),
                accesses,
            };
            kernel.sift();
            kernel
        })
    })
}

/// Buffers of a launch.
struct Buffers {
    out: u64,
    dump: u64,
    counts: u64,
    /// Addresses and sizes of all.
    all: Vec<(u64, u64)>,
    objects: BTreeMap<Object, u64>,
}

impl Buffers {
    fn new(slice: &Slice, kernel: &Kernel) -> (Buffers, Vec<u64>) {
        let mut all = Vec::new();
        let mut make = |bytes: &[u8]| {
            let base = slice.buffer(bytes.len() as u64);
            Driver::write(&*slice.device, DeviceAddress(base), bytes).unwrap();
            all.push((base, bytes.len() as u64));
            base
        };
        let initial = |object: Object| -> Vec<u8> {
            (0..kernel.size(object))
                .map(|at| object.initial(at))
                .collect()
        };
        let words = |values: &[u64]| -> Vec<u8> {
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect()
        };
        let order = [Object::Read, Object::ReadToo, Object::Write, Object::Atomic];
        let bases = order.map(|object| make(&initial(object)));
        let mut table = [0; 4];
        for (object, base) in order.into_iter().zip(bases) {
            table[text::slot(object) as usize] = base + text::table_delta(kernel, object);
        }
        let loaded: Vec<u8> = kernel
            .loaded
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let out = make(&vec![0; kernel.shape.threads() as usize * 4]);
        let blocks = kernel.shape.grid as usize;
        let [dump, counts] = [Object::SharedWrite, Object::SharedAtomic]
            .map(|object| make(&vec![0; blocks * kernel.size(object) as usize]));
        let mut parameters = vec![out, make(&loaded), dump, counts, make(&words(&table))];
        parameters.extend(bases);
        parameters.extend(bases);
        // The array is aligned for vectors.
        parameters.resize(parameters.len().next_multiple_of(2), 0);
        let mut array = initial(Object::Parameter);
        array.resize(text::parameter_bytes(kernel) as usize, 0);
        parameters.extend(
            array
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(word.try_into().unwrap())),
        );
        let objects = order.into_iter().zip(bases).collect();
        (
            Buffers {
                out,
                dump,
                counts,
                all,
                objects,
            },
            parameters,
        )
    }

    fn release(self, slice: &Slice) {
        for (base, _) in self.all {
            slice.runtime.allocations().freeing(DeviceAddress(base));
            slice.device.free(DeviceAddress(base)).unwrap();
        }
    }
}

fn bytes(slice: &Slice, address: u64, count: u64) -> Vec<u8> {
    let mut bytes = vec![0; count as usize];
    Driver::read(&*slice.device, DeviceAddress(address), &mut bytes).unwrap();
    bytes
}

/// Whether no access of the launch can leave its object, as the host works it
/// out.
fn is_proved(
    plan: &ModulePlan,
    name: &str,
    kernel: &Kernel,
    buffers: &Buffers,
    parameters: &[u64],
) -> bool {
    let Some(Ok(program)) = plan.entry(name).map(|entry| entry.proof.as_ref()) else {
        return false;
    };
    let bytes: Vec<u8> = parameters
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let inputs: Vec<u64> = program
        .inputs()
        .iter()
        .map(|input| {
            let (at, size) = (input.offset as usize, usize::from(input.bytes));
            let mut bits = [0; 8];
            bits[..size].copy_from_slice(&bytes[at..at + size]);
            u64::from_le_bytes(bits)
        })
        .collect();
    let shape = LaunchShape {
        grid: [kernel.shape.grid, 1, 1],
        block: [kernel.shape.block, 1, 1],
        shared: kernel.size(Object::Dynamic) as u32,
    };
    let bounds = |offset: u32| {
        let pointer = parameters[offset as usize / 8];
        let mut known = buffers.all.iter();
        known.find(|(base, _)| *base == pointer).copied()
    };
    program
        .proves_in_parts(&shape, &single(&inputs), &bounds)
        .is_proved
}

/// Runs the kernel; an error says what is not as the model has it. Answers
/// whether the launch was proved.
fn check(slice: &Slice, kernel: &Kernel, name: &str) -> Result<bool, String> {
    let text = text::write(kernel, name);
    let prediction = kernel.predict();
    let (module, plan) = slice.load_planned(&text.ptx);
    let (buffers, parameters) = Buffers::new(slice, kernel);
    let shape = Launch {
        grid: [kernel.shape.grid, 1, 1],
        block: [kernel.shape.block, 1, 1],
        dynamic_shared: kernel.size(Object::Dynamic) as u32,
        ..Launch::default()
    };
    let proved = is_proved(&plan, name, kernel, &buffers, &parameters);
    let findings = slice.launch_in(module, name, shape, &parameters);
    let result = match proved && !prediction.violations.is_empty() {
        true => Err(format!("proved, but {:?}", prediction.violations)),
        false => Ok(()),
    };
    let result = result.and_then(|()| {
        compare_findings(kernel, &text, &prediction, &buffers, &findings)
            .and_then(|()| compare_memory(slice, kernel, &prediction, &buffers))
    });
    buffers.release(slice);
    slice.runtime.modules().unloading(module);
    slice.device.module_unload(module).unwrap();
    match result {
        Ok(()) => Ok(proved),
        Err(error) => Err(format!("{error}\n{}", text.ptx)),
    }
}

fn compare_findings(
    kernel: &Kernel,
    text: &text::Text,
    prediction: &Prediction,
    buffers: &Buffers,
    findings: &[Finding],
) -> Result<(), String> {
    // A function's access is one site whoever calls it.
    let mut expected: BTreeMap<u32, (Object, Violation)> = BTreeMap::new();
    for ((index, which), violation) in &prediction.violations {
        let object = kernel.accesses[*index].object;
        let entry = expected
            .entry(text.lines[&(*index, *which)])
            .or_insert((object, Violation::default()));
        entry.1.threads.extend(&violation.threads);
        entry.1.places.extend(&violation.places);
    }
    let lines = |list: &mut dyn Iterator<Item = u32>| list.collect::<BTreeSet<u32>>();
    let found = lines(
        &mut findings
            .iter()
            .filter_map(|finding| Some(finding.access()?.ptx_line)),
    );
    if found != lines(&mut expected.keys().copied()) || found.len() != findings.len() {
        return Err(format!(
            "lines {:?} leave their bounds, but {findings:#?} was found",
            expected.keys().collect::<Vec<_>>()
        ));
    }
    for finding in findings {
        let Some(access) = finding.access() else {
            return Err(format!("no access: {finding:#?}"));
        };
        let (object, violation) = &expected[&access.ptx_line];
        let number = access.thread.block[0] * kernel.shape.block + access.thread.thread[0];
        let Some(intended) = finding.intended.as_ref().map(|near| near.allocation.extent) else {
            return Err(format!("no object: {finding:#?}"));
        };
        let offset = finding.address.0.wrapping_sub(intended.base.0) as i64;
        let right = finding.rule == object.rule()
            && violation.threads.contains(&number)
            && violation.places.iter().any(|(object, at)| {
                *at == offset
                    && intended.size == kernel.size(*object)
                    && buffers
                        .objects
                        .get(object)
                        .is_none_or(|base| *base == intended.base.0)
            });
        if !right {
            return Err(format!(
                "expected {object:?} {violation:?}, not {finding:#?}"
            ));
        }
    }
    Ok(())
}

fn compare_memory(
    slice: &Slice,
    kernel: &Kernel,
    prediction: &Prediction,
    buffers: &Buffers,
) -> Result<(), String> {
    let sums = slice.read(buffers.out, kernel.shape.threads() as usize);
    for (number, (sum, expected)) in sums.iter().zip(&prediction.sums).enumerate() {
        if expected.is_some_and(|expected| expected != *sum) {
            return Err(format!("thread {number} read {sum:#x}, not {expected:x?}"));
        }
    }
    let size = kernel.size(Object::SharedWrite);
    let mut memory = vec![bytes(
        slice,
        buffers.objects[&Object::Write],
        kernel.size(Object::Write),
    )];
    memory.extend(
        (0..u64::from(kernel.shape.grid))
            .map(|block| bytes(slice, buffers.dump + block * size, size)),
    );
    for (part, (memory, expected)) in memory.iter().zip(&prediction.written).enumerate() {
        for (at, (byte, expected)) in memory.iter().zip(expected).enumerate() {
            let right = match expected {
                Byte::Is(value) => byte == value,
                Byte::Either(one, other) => byte == one || byte == other,
            };
            if !right {
                return Err(format!(
                    "byte {at} of written object {part} is {byte:#x}, not {expected:?}"
                ));
            }
        }
    }
    let size = kernel.size(Object::SharedAtomic);
    let own = (0..u64::from(kernel.shape.grid)).map(|block| buffers.counts + block * size);
    let places = std::iter::once(buffers.objects[&Object::Atomic]).chain(own);
    for (place, expected) in places.zip(&prediction.counts) {
        let counts = slice.read(place, expected.len());
        if counts != *expected {
            return Err(format!("counts are {counts:?}, not {expected:?}"));
        }
    }
    for object in [Object::Read, Object::ReadToo] {
        let size = kernel.size(object);
        if bytes(slice, buffers.objects[&object], size)
            != (0..size).map(|at| object.initial(at)).collect::<Vec<_>>()
        {
            return Err(format!("{object:?} was written to"));
        }
    }
    Ok(())
}

#[test]
fn random_kernels_are_judged_as_the_model_judges_them() {
    let cases = std::env::var("RINGFENCE_RANDOM_KERNELS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(KERNELS);
    with(|slice| {
        let (number, wrong, right) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let proved = Cell::new(0);
        let config = ProptestConfig {
            cases,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let outcome = TestRunner::new(config).run(&kernel(), |kernel| {
            // Each try has a text of its own, so that all findings are new.
            number.set(number.get() + 1);
            let is_proved = check(slice, &kernel, &format!("random_{}", number.get()))
                .map_err(TestCaseError::fail)?;
            proved.set(proved.get() + u32::from(is_proved));
            let sites = kernel.predict().violations.len();
            wrong.set(wrong.get() + sites);
            right.set(right.get() + kernel.accesses.len() - sites.min(kernel.accesses.len()));
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{error}");
        }
        // The generator must make both kinds, or nothing was tested.
        let (wrong, right) = (wrong.get(), right.get());
        assert!(
            wrong >= cases as usize / 2 && right >= cases as usize,
            "{wrong} wrong, {right} right"
        );
        println!(
            "{wrong} wrong, {right} right, {} launches proved",
            proved.get()
        );
        assert!(
            proved.get() >= cases / 20,
            "{} launches proved",
            proved.get()
        );
    });
}

/// Inputs that have one value each.
fn single(inputs: &[u64]) -> Vec<instrument::Values> {
    let inputs = inputs.iter();
    inputs.map(|bits| instrument::Values::only(*bits)).collect()
}
