//! Which flags the platform accepts for buffers and for parts of them, and
//! which it returns from a query.
//!
//! A buffer with canaries is made by other calls than the program's, and these
//! have other rules. So each combination of flags is tried once on the
//! platform, with a small buffer of the same kind as the program's.

use crate::objects::buffer::Given;
use crate::platform::ask::ask;
use crate::platform::call;
use crate::platform::handles::MemObject;
use crate::sys::*;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The platform's result for flags: those that a buffer then has, or the code
/// of its refusal.
pub type Answer = Result<u64, cl_int>;

/// Known results: for buffers, and for parts of them by the part's flags.
#[derive(Default)]
pub struct Known(Mutex<FxHashMap<(Given, Option<u64>), Answer>>);

/// Size of a buffer that is made only to query it: that of the largest type,
/// which every platform accepts.
const BYTES: usize = 128;

impl Known {
    /// The platform's flags for a buffer made with these.
    pub fn of_buffer(&self, context: cl_context, given: Given) -> Answer {
        self.answer((given, None), || {
            let probe = Probe::of(context, given)?;
            probe.flags()
        })
    }

    /// The platform's flags for a part, made with these flags, of a buffer that
    /// was made with `given`.
    pub fn of_part(&self, context: cl_context, given: Given, flags: u64) -> Answer {
        self.answer((given, Some(flags)), || {
            let probe = Probe::of(context, given)?;
            let region = cl_buffer_region {
                origin: 0,
                size: BYTES,
            };
            let mut code = CL_SUCCESS;
            let part = call!(clCreateSubBuffer(
                probe.memory.raw(),
                flags,
                CL_BUFFER_CREATE_TYPE_REGION,
                (&raw const region).cast(),
                &raw mut code,
            ) else std::ptr::null_mut());
            Probe::made(part, code, None)?.flags()
        })
    }

    fn answer(&self, question: (Given, Option<u64>), ask: impl FnOnce() -> Answer) -> Answer {
        if let Some(known) = self.0.lock().get(&question) {
            return *known;
        }
        let answer = ask();
        // Short memory is no answer.
        let lasting = [
            CL_OUT_OF_HOST_MEMORY,
            CL_OUT_OF_RESOURCES,
            CL_MEM_OBJECT_ALLOCATION_FAILURE,
        ];
        if !answer.is_err_and(|code| lasting.contains(&code)) {
            self.0.lock().insert(question, answer);
        }
        answer
    }
}

/// A buffer that is made only to query its flags.
struct Probe {
    memory: MemObject,
    /// What it was made with, which outlives it.
    _host: Option<Box<[u64]>>,
}

impl Probe {
    fn of(context: cl_context, given: Given) -> Result<Probe, cl_int> {
        let mut host = given
            .host
            .then(|| vec![0u64; BYTES / size_of::<u64>()].into_boxed_slice());
        let pointer = match &mut host {
            Some(host) => host.as_mut_ptr().cast(),
            None => std::ptr::null_mut(),
        };
        let mut code = CL_SUCCESS;
        let handle = call!(clCreateBuffer(context, given.flags, BYTES, pointer, &raw mut code)
            else std::ptr::null_mut());
        Probe::made(handle, code, host)
    }

    fn made(handle: cl_mem, code: cl_int, host: Option<Box<[u64]>>) -> Result<Probe, cl_int> {
        match (code, MemObject::made(handle, code)) {
            (_, Some(memory)) => Ok(Probe {
                memory,
                _host: host,
            }),
            (CL_SUCCESS, None) => Err(CL_MEM_OBJECT_ALLOCATION_FAILURE),
            (code, None) => Err(code),
        }
    }

    fn flags(&self) -> Answer {
        let memory = self.memory.raw();
        let flags: Option<u64> = ask!(one, clGetMemObjectInfo(memory, CL_MEM_FLAGS));
        flags.ok_or(CL_INVALID_VALUE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::fake::Fake;

    #[test]
    fn each_question_is_asked_once_and_leaves_nothing() {
        let fake = Fake::new();
        let (context, known) = (fake.context, Known::default());
        let given = |flags| Given { flags, host: true };
        assert_eq!(
            known.of_buffer(context, given(CL_MEM_READ_ONLY)),
            Ok(CL_MEM_READ_ONLY)
        );
        let part = known.of_part(context, given(CL_MEM_READ_ONLY), CL_MEM_WRITE_ONLY);
        assert_eq!(part, Ok(CL_MEM_WRITE_ONLY));
        assert_eq!(fake.mems(), 0);
        // A known result needs no platform; a lack of memory is no result.
        fake.refuse("clCreateBuffer", CL_OUT_OF_RESOURCES);
        assert_eq!(
            known.of_buffer(context, given(CL_MEM_READ_ONLY)),
            Ok(CL_MEM_READ_ONLY)
        );
        assert_eq!(known.of_buffer(context, given(0)), Err(CL_OUT_OF_RESOURCES));
        fake.refuse("clCreateBuffer", CL_INVALID_VALUE);
        assert_eq!(known.of_buffer(context, given(0)), Err(CL_INVALID_VALUE));
        fake.allow();
        assert_eq!(
            known.of_buffer(context, given(0)),
            Err(CL_INVALID_VALUE),
            "it is known"
        );
    }
}
