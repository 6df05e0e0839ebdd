//! The device's checker: a kernel that verifies the canaries of a launch and
//! repairs them, one for each context, in the program's own queues. Its source
//! is `verify.cl`, what it reads and writes is `heap::pieces`.
//!
//! It is built in the program's context, and released with the last reference
//! that the program holds.

use crate::objects::block::Memory;
use crate::platform::ask::ask;
use crate::platform::call;
use crate::platform::events::wait_list;
use crate::platform::handles::MemObject;
use crate::sys::*;
use heap::pieces::{Answer, Piece};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::ffi::CString;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const SOURCE: &str = include_str!("verify.cl");

/// Memory objects that the two kernels accept. The larger one stays within the
/// 1024 bytes of arguments that every device supports.
const SIZES: [usize; 2] = [4, 60];

/// Memory objects that one launch scans, at most.
pub const MOST: usize = SIZES[1];

/// Threads that scan a piece, if the device allows that many.
const THREADS: usize = 128;

/// Lists of pieces that are kept for launches that scan the same again.
const PLANS: usize = 256;

/// The device's checker of one context.
pub struct Checker {
    context: usize,
    program: usize,
    /// References to the context that it holds.
    pub references: u32,
    threads: usize,
    /// Kernels of either size that are not in use.
    idle: Mutex<[Vec<usize>; 2]>,
    plans: Mutex<FxHashMap<Vec<u64>, Arc<Plan>>>,
    answers: Mutex<Vec<Answers>>,
    /// Places for answers that were made.
    places: AtomicU32,
}

/// Pieces as the device has them.
pub struct Plan {
    pub pieces: Vec<Piece>,
    memory: MemObject,
}

/// Where a scan's answers go.
pub struct Answers {
    memory: MemObject,
    bytes: Box<[u8]>,
}

impl Drop for Checker {
    fn drop(&mut self) {
        for kernel in self.idle.get_mut().iter().flatten() {
            call!(clReleaseKernel(*kernel as cl_kernel));
        }
        call!(clReleaseProgram(self.program as cl_program));
    }
}

/// The source with a kernel of each size.
fn source() -> String {
    let mut text = SOURCE.to_owned();
    for size in SIZES {
        let _ = write!(
            text,
            "\nkernel void ringfence_verify_{size}(global const Piece *pieces, global Answer *answers"
        );
        for index in 0..size {
            let _ = write!(text, ", global uchar *m{index}");
        }
        text.push_str(
            ")\n{\n    local uint sums[4];\n    global const Piece *piece = pieces + get_group_id(0);\n    \
             global uchar *memory;\n    switch (piece->argument) {\n",
        );
        for index in 1..size {
            let _ = writeln!(text, "    case {index}: memory = m{index}; break;");
        }
        text.push_str(
            "    default: memory = m0; break;\n    }\n    \
             ringfence_verify(memory, piece, answers + get_group_id(0), sums);\n}\n",
        );
    }
    text
}

impl Checker {
    /// Builds it for all devices of a context; `None`: one of them has no
    /// compiler, or is big-endian.
    pub fn build(context: cl_context, devices: &[usize]) -> Option<Checker> {
        for device in devices {
            let device = *device as cl_device_id;
            let yes = |answer: Option<u32>| answer.is_some_and(|answer| answer != 0);
            if !yes(ask!(
                one,
                clGetDeviceInfo(device, CL_DEVICE_COMPILER_AVAILABLE)
            )) || !yes(ask!(one, clGetDeviceInfo(device, CL_DEVICE_ENDIAN_LITTLE)))
            {
                return None;
            }
        }
        let text = CString::new(source()).ok()?;
        let mut pointer = text.as_ptr();
        let mut code = CL_SUCCESS;
        let program = call!(clCreateProgramWithSource(
            context,
            1,
            &raw mut pointer,
            std::ptr::null(),
            &raw mut code
        ) else std::ptr::null_mut());
        if code != CL_SUCCESS || program.is_null() {
            return None;
        }
        let mut checker = Checker {
            context: context as usize,
            program: program as usize,
            references: 0,
            threads: THREADS,
            idle: Mutex::default(),
            plans: Mutex::default(),
            answers: Mutex::default(),
            places: AtomicU32::new(0),
        };
        let (none, data) = (std::ptr::null(), std::ptr::null_mut());
        if call!(clBuildProgram(program, 0, none, c"".as_ptr(), None, data)) != CL_SUCCESS {
            return None;
        }
        for which in 0..SIZES.len() {
            let kernel = checker.kernel(which)?;
            for device in devices {
                let device = *device as cl_device_id;
                let most: Option<usize> = ask!(
                    one,
                    clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_WORK_GROUP_SIZE)
                );
                checker.threads = checker.threads.min(most.unwrap_or(1)).max(1);
            }
            checker.idle.get_mut()[which].push(kernel as usize);
        }
        Some(checker)
    }

    /// Buffers that it has.
    pub fn buffers(&self) -> u32 {
        let plans = u32::try_from(self.plans.lock().len()).unwrap_or(0);
        plans + self.places.load(Ordering::Relaxed)
    }

    /// Releases the memory that no scan uses. Platforms store in it which
    /// command used it last, which keeps that command's queue alive.
    pub fn forget(&self) {
        let plans = std::mem::take(&mut *self.plans.lock());
        let answers = std::mem::take(&mut *self.answers.lock());
        let gone = u32::try_from(answers.len()).unwrap_or(u32::MAX);
        self.places.fetch_sub(gone, Ordering::Relaxed);
        drop((plans, answers));
    }

    fn kernel(&self, which: usize) -> Option<cl_kernel> {
        if let Some(kernel) = self.idle.lock()[which].pop() {
            return Some(kernel as cl_kernel);
        }
        let name = CString::new(format!("ringfence_verify_{}", SIZES[which])).ok()?;
        let mut code = CL_SUCCESS;
        let program = self.program as cl_program;
        let kernel = call!(clCreateKernel(program, name.as_ptr(), &raw mut code)
            else std::ptr::null_mut());
        (code == CL_SUCCESS && !kernel.is_null()).then_some(kernel)
    }

    /// The pieces with this name, made if they are not known.
    pub fn plan(
        &self,
        name: &[u64],
        make: impl FnOnce() -> Option<Vec<Piece>>,
    ) -> Option<Arc<Plan>> {
        if let Some(plan) = self.plans.lock().get(name) {
            return Some(plan.clone());
        }
        let pieces = make()?;
        let mut bytes: Vec<u8> = pieces.iter().flat_map(Piece::to_bytes).collect();
        let flags = CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR;
        let (context, mut code) = (self.context as cl_context, CL_SUCCESS);
        let from = bytes.as_mut_ptr().cast();
        let memory = call!(clCreateBuffer(context, flags, bytes.len(), from, &raw mut code)
            else std::ptr::null_mut());
        let memory = MemObject::made(memory, code)?;
        let plan = Arc::new(Plan { pieces, memory });
        let mut plans = self.plans.lock();
        let old = if plans.len() < PLANS {
            None
        } else {
            Some(std::mem::take(&mut *plans))
        };
        plans.insert(name.to_vec(), plan.clone());
        drop(plans);
        // Pending launches hold theirs.
        drop(old);
        Some(plan)
    }

    /// A place for the answers about a plan.
    pub fn answers(&self, plan: &Plan) -> Option<Answers> {
        let bytes = plan.pieces.len() * Answer::BYTES;
        let mut idle = self.answers.lock();
        let fits = |answers: &Answers| answers.bytes.len() >= bytes;
        if let Some(index) = idle.iter().position(fits) {
            let mut answers = idle.swap_remove(index);
            drop(idle);
            // A read that a platform skips must not show the damage of an
            // earlier scan.
            answers.bytes[..bytes].fill(0);
            return Some(answers);
        }
        drop(idle);
        let bytes = bytes.next_power_of_two();
        let context = self.context as cl_context;
        let memory = MemObject::buffer(context, CL_MEM_WRITE_ONLY, bytes)?;
        self.places.fetch_add(1, Ordering::Relaxed);
        Some(Answers {
            memory,
            bytes: vec![0; bytes].into_boxed_slice(),
        })
    }

    /// Frees a place that no command writes any more.
    pub fn take_back(&self, answers: Answers) {
        self.answers.lock().push(answers);
    }

    /// Enqueues a scan of memory objects, by the number that the plan's pieces
    /// have for them. `event` gets that of the kernel.
    pub fn verify(
        &self,
        queue: cl_command_queue,
        memories: &[Memory],
        (plan, answers): (&Plan, &Answers),
        after: &[cl_event],
        event: *mut cl_event,
    ) -> cl_int {
        let Some(which) = SIZES.iter().position(|size| memories.len() <= *size) else {
            return CL_INVALID_VALUE;
        };
        let Some(first) = memories.first() else {
            return CL_INVALID_VALUE;
        };
        let Some(kernel) = self.kernel(which) else {
            return CL_OUT_OF_RESOURCES;
        };
        // A kernel of this size takes more memory objects than there may be.
        let unused = std::iter::repeat_n(first, SIZES[which] - memories.len());
        let all = memories.iter().chain(unused).copied();
        let code = match arguments(kernel, (plan, answers), all) {
            CL_SUCCESS => {
                let (global, local) = (plan.pieces.len() * self.threads, self.threads);
                let (count, list) = wait_list(after);
                call!(clEnqueueNDRangeKernel(
                    queue,
                    kernel,
                    1,
                    std::ptr::null(),
                    &raw const global,
                    &raw const local,
                    count,
                    list,
                    event
                ))
            }
            code => code,
        };
        // What it holds is read when it is enqueued.
        self.idle.lock()[which].push(kernel as usize);
        code
    }
}

/// Sets all arguments of a kernel of the checker.
fn arguments(
    kernel: cl_kernel,
    (plan, answers): (&Plan, &Answers),
    memories: impl Iterator<Item = Memory>,
) -> cl_int {
    let fixed = [&plan.memory, &answers.memory].map(|memory| Memory::Buffer(memory.raw() as usize));
    for (index, memory) in (0u32..).zip(fixed.into_iter().chain(memories)) {
        let code = match memory {
            Memory::Buffer(handle) => {
                let value = (&raw const handle).cast();
                call!(clSetKernelArg(kernel, index, size_of::<cl_mem>(), value))
            }
            Memory::Svm(address) => {
                let address = address as *const _;
                call!(clSetKernelArgSVMPointer(kernel, index, address))
            }
        };
        if code != CL_SUCCESS {
            return code;
        }
    }
    CL_SUCCESS
}

impl Answers {
    /// Enqueues a read of the answers about a plan.
    pub fn read(
        &mut self,
        queue: cl_command_queue,
        plan: &Plan,
        after: &[cl_event],
        event: *mut cl_event,
    ) -> cl_int {
        let (count, list) = wait_list(after);
        call!(clEnqueueReadBuffer(
            queue,
            self.memory.raw(),
            FALSE,
            0,
            plan.pieces.len() * Answer::BYTES,
            self.bytes.as_mut_ptr().cast(),
            count,
            list,
            event
        ))
    }

    /// The answers, once they were read.
    pub fn all(&self, plan: &Plan) -> Vec<(Piece, Answer)> {
        let answers = self.bytes.chunks_exact(Answer::BYTES);
        let both = plan.pieces.iter().zip(answers);
        both.filter_map(|(piece, bytes)| Some((*piece, Answer::from_bytes(bytes)?)))
            .collect()
    }

    /// Whether any of them reports damage.
    pub fn any(&self, plan: &Plan) -> bool {
        let answers = self.bytes.chunks_exact(Answer::BYTES);
        answers
            .take(plan.pieces.len())
            .any(|bytes| bytes[..4] != [0; 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::fake::Fake;

    #[test]
    fn the_source_has_a_kernel_of_each_size() {
        let text = source();
        for size in SIZES {
            let head = format!("kernel void ringfence_verify_{size}(");
            let (_, rest) = text.split_once(&head).unwrap();
            let (parameters, _) = rest.split_once(')').unwrap();
            // Pieces and answers besides.
            assert_eq!(parameters.split(',').count(), size + 2);
        }
        assert_eq!(MOST, SIZES[SIZES.len() - 1]);
    }

    #[test]
    fn a_device_that_cannot_compile_has_no_checker() {
        let fake = Fake::new();
        assert!(Checker::build(fake.context, &[0xd0]).is_none());
    }

    fn checker(fake: &Fake) -> Checker {
        Checker {
            context: fake.context as usize,
            program: 0,
            references: 0,
            threads: 1,
            idle: Mutex::default(),
            plans: Mutex::default(),
            answers: Mutex::default(),
            places: AtomicU32::new(0),
        }
    }

    #[test]
    fn plans_and_places_are_used_again() {
        let fake = Fake::new();
        let checker = checker(&fake);
        let layout = heap::canary::Layout::around(64, 64, 128).unwrap();
        let key = heap::canary::Key::of_byte(1);
        let pieces = || Some(layout.pieces(&key, 0)?.into_iter().flatten().collect());
        let plan = checker.plan(&[1, 2], pieces).unwrap();
        let again = checker.plan(&[1, 2], || None).unwrap();
        assert!(Arc::ptr_eq(&plan, &again));
        assert!(checker.plan(&[2, 1], || None).is_none());
        let mut answers = checker.answers(&plan).unwrap();
        assert!(!answers.any(&plan));
        answers.bytes[0] = 1;
        assert!(answers.any(&plan));
        checker.take_back(answers);
        // A skipped read shows no damage of an earlier scan.
        let answers = checker.answers(&plan).unwrap();
        assert!(!answers.any(&plan));
        assert_eq!((checker.buffers(), fake.mems()), (2, 2));
        checker.take_back(answers);
        drop((plan, again));
        checker.forget();
        assert_eq!((checker.buffers(), fake.mems()), (0, 0));
    }
}
