//! The functions that programs call. A hook converts its arguments, calls the
//! layers below, and converts their results.

pub mod answer;
mod buffers;
mod contexts;
mod copies;
mod events;
mod images;
mod judge;
mod kernels;
mod launches;
mod maps;
mod native;
mod parts;
mod programs;
mod queries;
mod session;
mod svm;
pub mod table;
mod waits;

#[cfg(test)]
mod tests {
    use crate::api::session::testing::{Test, start};
    use crate::api::{buffers, contexts, events, kernels, launches, parts, programs, queries};
    use crate::findings::testing::Kept;
    use crate::objects::staging::Gate;
    use crate::platform::commands::Order;
    use crate::platform::fake::{peek, poke};
    use crate::sys::*;
    use heap::canary::Side;
    use model::{CanaryChecker, Settings, UncheckedReason};

    fn by_host() -> Settings {
        Settings {
            canary_checker: CanaryChecker::Host,
            ..Settings::default()
        }
    }

    fn buffer(t: &Test, size: usize) -> cl_mem {
        let mut code = 1;
        let none = std::ptr::null_mut();
        // SAFETY: what a program passes.
        let made = unsafe { buffers::create(t.fake.context, 0, size, none, &raw mut code) };
        assert_eq!(code, CL_SUCCESS);
        made
    }

    /// A kernel with one argument.
    fn kernel(t: &Test, argument: cl_mem) -> cl_kernel {
        let kernel = t.fake.kernel("fill", &[("out", false)]);
        // The platform of the tests makes no kernels of programs.
        let known = crate::objects::kernel::Kernel::of(kernel, Vec::new());
        t.session.objects.add_kernel(known.into());
        let size = size_of::<cl_mem>();
        // SAFETY: as above.
        let code = unsafe { kernels::set(kernel, 0, size, (&raw const argument).cast()) };
        assert_eq!(code, CL_SUCCESS);
        kernel
    }

    fn launch(queue: cl_command_queue, kernel: cl_kernel, event: *mut cl_event) {
        let (one, none) = (1usize, std::ptr::null());
        let global = &raw const one;
        // SAFETY: what a program passes.
        let code = unsafe {
            launches::range(
                queue,
                kernel,
                1,
                none,
                global,
                none,
                0,
                std::ptr::null(),
                event,
            )
        };
        assert_eq!(code, CL_SUCCESS);
    }

    fn overwritten(serial: u64) -> Vec<Kept> {
        vec![
            Kept::Checked("fill".into()),
            Kept::Overwritten("fill".into(), Some(0), serial, Side::After, 0),
        ]
    }

    #[test]
    fn a_kernel_that_writes_past_a_buffer_is_found_when_the_program_waits() {
        let t = start(by_host());
        let queue = t.fake.queue(Order::Kept);
        let made = buffer(&t, 40);
        t.fake.on_kernel(|arguments| poke(arguments[0], 40, 1));
        launch(queue, kernel(&t, made), std::ptr::null_mut());
        // SAFETY: a queue of this platform.
        assert_eq!(unsafe { events::finish(queue) }, CL_SUCCESS);
        let serial = t.session.buffer(made).unwrap().serial;
        assert_eq!(t.recorder.take_findings(), overwritten(serial));
    }

    #[test]
    fn an_event_of_the_program_s_is_over_when_the_scan_is() {
        let t = start(by_host());
        let queue = t.fake.queue(Order::Kept);
        let made = buffer(&t, 40);
        let mut event = std::ptr::null_mut();
        launch(queue, kernel(&t, made), &raw mut event);
        let status = || {
            let mut status: cl_int = -1;
            let (name, value) = (CL_EVENT_COMMAND_EXECUTION_STATUS, (&raw mut status).cast());
            // SAFETY: room for a status.
            unsafe { events::info(event, name, 4, value, std::ptr::null_mut()) };
            status
        };
        // The kernel has ended, but not the scan behind it.
        t.fake.end(event, 0);
        assert_eq!(status(), CL_RUNNING.cast_signed());
        t.fake.run();
        assert_eq!(status(), 0);
        // SAFETY: the program's event.
        unsafe {
            assert_eq!(events::wait(1, &raw const event), CL_SUCCESS);
            events::retain(event);
            events::release(event);
            events::release(event);
        }
        assert_eq!(t.fake.references(event), 0);
    }

    #[test]
    fn launches_that_the_settings_leave_out_are_counted_as_such() {
        let t = start(Settings {
            launch_skip: 1,
            ..by_host()
        });
        let queue = t.fake.queue(Order::Kept);
        let kernel = kernel(&t, buffer(&t, 40));
        t.fake.log();
        launch(queue, kernel, std::ptr::null_mut());
        assert_eq!(t.fake.log(), ["clEnqueueNDRangeKernel"]);
        let excluded = Kept::Unchecked("fill".into(), UncheckedReason::Excluded);
        assert_eq!(t.recorder.take_findings(), [excluded]);
        launch(queue, kernel, std::ptr::null_mut());
        assert!(t.fake.log().len() > 1);
    }

    #[test]
    fn a_buffer_is_the_program_s_in_all_that_it_can_ask() {
        let t = start(by_host());
        let made = buffer(&t, 40);
        let ask = |object, name| {
            let mut value = 99usize;
            let place = (&raw mut value).cast();
            // SAFETY: room for this many bytes.
            let code =
                unsafe { queries::mem_object_info(object, name, 8, place, std::ptr::null_mut()) };
            assert_eq!(code, CL_SUCCESS);
            value
        };
        assert_eq!(ask(made, CL_MEM_SIZE), 40);
        assert_eq!(ask(made, CL_MEM_ASSOCIATED_MEMOBJECT), 0);
        assert_eq!(ask(made, CL_MEM_OFFSET), 0);
        let region = cl_buffer_region {
            origin: 8,
            size: 16,
        };
        let kind = CL_BUFFER_CREATE_TYPE_REGION;
        let mut code = 1;
        // SAFETY: what a program passes.
        let part =
            unsafe { parts::create(made, 0, kind, (&raw const region).cast(), &raw mut code) };
        assert_eq!(code, CL_SUCCESS);
        assert_eq!(ask(part, CL_MEM_ASSOCIATED_MEMOBJECT), made as usize);
        assert_eq!(ask(part, CL_MEM_OFFSET), 8);
        // The part keeps the buffer, and both go with it.
        // SAFETY: the program's objects.
        unsafe {
            buffers::release(made);
            assert_eq!(ask(made, CL_MEM_SIZE), 40);
            buffers::release(part);
        }
        assert_eq!(t.fake.mems(), 0);
        assert!(t.session.buffer(made).is_none() && t.session.buffer(part).is_none());
    }

    /// A buffer of the host's memory, which has no canaries of its own.
    fn of_host(t: &Test, host: &mut [u8]) -> cl_mem {
        let (flags, mut code) = (CL_MEM_USE_HOST_PTR, 1);
        let (size, host) = (host.len(), host.as_mut_ptr().cast());
        // SAFETY: what a program passes.
        let made = unsafe { buffers::create(t.fake.context, flags, size, host, &raw mut code) };
        assert_eq!(code, CL_SUCCESS);
        made
    }

    #[test]
    fn a_staging_copy_stands_for_memory_of_the_host() {
        let t = start(by_host());
        let queue = t.fake.queue(Order::Kept);
        let mut host = [7u8; 40];
        let made = of_host(&t, &mut host);
        let kernel = kernel(&t, made);
        t.fake.on_kernel(|arguments| {
            assert_eq!(peek(arguments[0], 39), 7);
            poke(arguments[0], 39, 8);
            poke(arguments[0], 40, 1);
        });
        launch(queue, kernel, std::ptr::null_mut());
        assert_eq!(t.fake.arguments(kernel), [made as usize]);
        // SAFETY: a queue of this platform.
        unsafe { events::finish(queue) };
        let serial = t.session.buffer(made).unwrap().serial;
        assert_eq!(t.recorder.take_findings(), overwritten(serial));
        assert_eq!(peek(made as usize, 39), 8, "the content was copied back");
        // SAFETY: the program's object.
        unsafe { buffers::release(made) };
        assert_eq!(t.fake.mems(), 0);
    }

    #[test]
    fn a_launch_elsewhere_does_not_wait_for_one_that_waits_for_the_program() {
        let t = start(by_host());
        let queues = [t.fake.queue(Order::Kept), t.fake.queue(Order::Kept)];
        let mut host = [7u8; 40];
        let kernel = kernel(&t, of_host(&t, &mut host));
        let user = t.fake.user_event();
        let (one, none) = (1usize, std::ptr::null());
        let (size, mut event) = (&raw const one, std::ptr::null_mut());
        // SAFETY: what a program passes.
        let code = unsafe {
            let (list, event) = (&raw const user, &raw mut event);
            launches::range(queues[0], kernel, 1, none, size, none, 1, list, event)
        };
        assert_eq!(code, CL_SUCCESS);
        assert_eq!(t.recorder.take_findings(), []);
        launch(queues[1], kernel, std::ptr::null_mut());
        let why = "argument out: a launch that waits for the program has its copy";
        let bare = Kept::Bare("fill".into(), vec![why.to_owned()]);
        assert_eq!(t.recorder.take_findings(), [bare]);
        // SAFETY: a queue of this platform.
        unsafe { events::finish(queues[1]) };
        // What waits for the first launch is gated as it is.
        let list = [event];
        assert_eq!(t.session.schedule.watched.gate(&list), Gate::Program);
        // SAFETY: the program's event.
        unsafe { events::set_user_event_status(user, 0) };
        t.fake.run();
        assert_eq!(t.session.schedule.watched.gate(&list), Gate::Open);
        let checked = Kept::Checked("fill".into());
        assert!(t.recorder.take_findings().contains(&checked));
    }

    #[test]
    fn a_part_is_refused_as_the_platform_would_refuse_it() {
        let t = start(by_host());
        let made = buffer(&t, 40);
        let before = t.fake.mems();
        let refusal = |origin, size| {
            let region = cl_buffer_region { origin, size };
            let (kind, mut code) = (CL_BUFFER_CREATE_TYPE_REGION, 1);
            let info = (&raw const region).cast();
            // SAFETY: what a program passes.
            let part = unsafe { parts::create(made, 0, kind, info, &raw mut code) };
            assert!(part.is_null());
            code
        };
        assert_eq!(refusal(0, 0), CL_INVALID_BUFFER_SIZE);
        assert_eq!(refusal(0, 41), CL_INVALID_VALUE);
        assert_eq!(refusal(usize::MAX, 2), CL_INVALID_VALUE);
        assert_eq!(t.fake.mems(), before);
    }

    #[test]
    fn a_buffer_without_room_for_canaries_is_made_all_the_same() {
        let t = start(by_host());
        t.fake.has_room_for(128);
        let made = buffer(&t, 128);
        assert_eq!(t.fake.mems(), 1);
        let queue = t.fake.queue(Order::Kept);
        launch(queue, kernel(&t, made), std::ptr::null_mut());
        let bare = vec!["argument out: no room for canaries".to_owned()];
        let expected = [
            Kept::Bare("fill".into(), bare),
            Kept::Checked("fill".into()),
        ];
        assert_eq!(t.recorder.take_findings(), expected);
    }

    #[test]
    fn references_of_ours_are_not_counted_as_the_program_s() {
        let t = start(by_host());
        t.session.canaries.add_context(t.fake.context);
        buffer(&t, 40);
        let mut count = 0u32;
        let (name, value) = (CL_CONTEXT_REFERENCE_COUNT, (&raw mut count).cast());
        // SAFETY: room for a number.
        unsafe { contexts::info(t.fake.context, name, 4, value, std::ptr::null_mut()) };
        // This platform counts memory objects: the program has one.
        assert_eq!(count, 2);
    }

    #[test]
    fn the_option_of_ours_is_added_once_and_not_shown() {
        let t = start(by_host());
        let program = 0x5 as cl_program;
        // This platform builds no programs: what fails is built without.
        let none = std::ptr::null_mut();
        // SAFETY: what a program passes.
        let code = unsafe {
            programs::build_program(program, 0, std::ptr::null(), c"-w".as_ptr(), None, none)
        };
        assert_eq!(code, CL_INVALID_OPERATION);
        assert!(!t.session.objects.is_altered(program));
    }
}
