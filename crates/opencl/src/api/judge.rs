//! Which host calls access memory outside their objects. Such a call becomes a
//! finding, because few programs check the error code, and is refused with
//! OpenCL's code for it: not every platform checks a call against the part of a
//! block that is the program's buffer (NVIDIA's, driver 580, accepts boxes that
//! end outside it).

use crate::api::session::{self, Refusal, Session};
use crate::findings::CallError;
use crate::objects::access::Access;
use crate::objects::buffer::{Buffer, Place};
use crate::sys::*;
use std::ffi::c_void;
use std::sync::Arc;

/// Bytes of an object that a call will access.
pub struct Touch {
    object: cl_mem,
    /// First byte, and one past the last; larger than any address if it wraps.
    from: u128,
    to: u128,
    access: Access,
}

impl Touch {
    pub fn range(object: cl_mem, offset: usize, size: usize, access: Access) -> Option<Touch> {
        let from = offset as u128;
        Some(Touch {
            object,
            from,
            to: from + size as u128,
            access,
        })
    }

    /// Whether it stays inside an object of this size.
    pub fn is_within(&self, size: u64) -> bool {
        self.to <= u128::from(size)
    }

    /// A box of bytes: `None` if the program passes none.
    pub fn rect(
        object: cl_mem,
        origin: *const usize,
        region: *const usize,
        (row, slice): (usize, usize),
        access: Access,
    ) -> Option<Touch> {
        if origin.is_null() || region.is_null() {
            return None;
        }
        // SAFETY: three numbers each, as these calls take them.
        let (o, r) = unsafe { (*origin.cast::<[usize; 3]>(), *region.cast::<[usize; 3]>()) };
        if r.contains(&0) {
            return None;
        }
        let row = if row == 0 { r[0] } else { row } as u128;
        let slice = match slice {
            0 => row.saturating_mul(r[1] as u128),
            slice => slice as u128,
        };
        let at = |x: usize, y: usize, z: usize| {
            let lines = row.saturating_mul(y as u128);
            let slices = slice.saturating_mul(z as u128);
            slices.saturating_add(lines).saturating_add(x as u128)
        };
        let from = at(o[0], o[1], o[2]);
        Some(Touch {
            object,
            from,
            to: from.saturating_add(at(r[0], r[1] - 1, r[2] - 1)),
            access,
        })
    }
}

/// The session, if host calls are checked, and how it treats bad ones.
fn judging() -> Option<(&'static Session, Refusal)> {
    let session = session::get()?;
    Some((session, session.refusal()?))
}

/// Whether a call is to be refused, because it leaves its objects, which is
/// reported.
pub fn refused(function: &'static str, touches: &[Option<Touch>]) -> bool {
    let Some((session, refusal)) = judging() else {
        return false;
    };
    let mut refused = false;
    for touch in touches.iter().flatten() {
        let Some(buffer) = session.buffer(touch.object) else {
            continue;
        };
        if !touch.is_within(buffer.size) {
            refused = refusal == Refusal::Refused;
            session.report.call(describe(function, touch, buffer));
        }
    }
    refused
}

/// A box of pixels of an image that a call will access.
pub struct Pixels {
    pub image: cl_mem,
    pub origin: *const usize,
    pub region: *const usize,
    pub access: Access,
}

/// Whether a call is to be refused, because it leaves its images, which is
/// reported.
pub fn refused_pixels(function: &'static str, boxes: &[Pixels]) -> bool {
    let Some((session, refusal)) = judging() else {
        return false;
    };
    let mut refused = false;
    for touch in boxes {
        let Some(buffer) = session.buffer(touch.image) else {
            continue;
        };
        let (Place::Image(shape)
        | Place::Made {
            shape: Some(shape), ..
        }) = &buffer.place
        else {
            continue;
        };
        if touch.origin.is_null() || touch.region.is_null() {
            continue;
        }
        // SAFETY: three numbers each, as these calls take them.
        let (origin, region) = unsafe {
            (
                *touch.origin.cast::<[usize; 3]>(),
                *touch.region.cast::<[usize; 3]>(),
            )
        };
        let Some((size, pixel)) = shape.pixels() else {
            continue;
        };
        let inside = |index: usize| {
            let end = origin[index].checked_add(region[index]);
            end.is_some_and(|end| end as u64 <= size[index])
        };
        // The platform refuses what is no valid box.
        if region.contains(&0) || (0..3).all(inside) {
            continue;
        }
        refused = refusal == Refusal::Refused;
        let what = touch.access.word();
        let rows = (origin[2] as u64)
            .saturating_mul(size[1])
            .saturating_add(origin[1] as u64);
        let first = rows
            .saturating_mul(size[0])
            .saturating_add(origin[0] as u64);
        let count = region
            .iter()
            .fold(1u64, |all, side| all.saturating_mul(*side as u64));
        let error = CallError {
            function,
            access: touch.access,
            detail: format!("{what} of {region:?} pixels at {origin:?} of an image of {size:?}"),
            width: count.saturating_mul(pixel),
            offset: first.saturating_mul(pixel),
            buffer,
        };
        session.report.call(error);
    }
    refused
}

/// `write of 5 bytes at offset 60 of 64 bytes; 1 byte is outside, from offset 64 on`.
fn in_words(what: &str, width: u64, from: u128, size: u64) -> String {
    let outside = from.max(u128::from(size));
    let inside = u64::try_from(outside - from).unwrap_or(u64::MAX);
    let count = width.saturating_sub(inside);
    format!(
        "{what} of {} at offset {from} of {}; {} {} outside, from offset {outside} on",
        report::count(width, "byte"),
        report::count(size, "byte"),
        report::count(count, "byte"),
        if count == 1 { "is" } else { "are" },
    )
}

fn describe(function: &'static str, touch: &Touch, buffer: Arc<Buffer>) -> CallError {
    let size = touch.to - touch.from;
    let width = u64::try_from(size).unwrap_or(u64::MAX);
    let what = touch.access.word();
    CallError {
        function,
        access: touch.access,
        detail: in_words(what, width, touch.from, buffer.size),
        width,
        offset: u64::try_from(touch.from).unwrap_or(u64::MAX),
        buffer,
    }
}

/// Whether a call that starts in an SVM allocation passes its end. If so, it is
/// reported. Returns whether the settings require that the call be refused.
pub fn leaves(function: &'static str, pointer: *const c_void, size: usize, access: Access) -> bool {
    let Some((session, refusal)) = judging() else {
        return false;
    };
    let Some(buffer) = session.objects.svm_at(pointer as usize) else {
        return false;
    };
    let offset = (pointer as usize - buffer.handle) as u64;
    if u128::from(offset) + size as u128 <= u128::from(buffer.size) {
        return false;
    }
    let what = access.word();
    let error = CallError {
        function,
        access,
        detail: in_words(what, size as u64, u128::from(offset), buffer.size),
        width: size as u64,
        offset,
        buffer,
    };
    session.report.call(error);
    refusal == Refusal::Refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::session::testing::start;
    use crate::findings::testing::Kept;
    use crate::objects::buffer::testing::made;
    use model::{ApiErrors, Settings};

    fn rect(origin: [usize; 3], region: [usize; 3], pitches: (usize, usize)) -> Option<Touch> {
        let object = std::ptr::null_mut();
        let (origin, region) = (origin.as_ptr(), region.as_ptr());
        Touch::rect(object, origin, region, pitches, Access::Read)
    }

    #[test]
    fn a_box_ends_with_its_last_row() {
        let touch = rect([2, 1, 0], [4, 3, 2], (10, 100)).unwrap();
        // The last row is in slice 1, row 1 + 2.
        assert_eq!((touch.from, touch.to), (12, 100 + 30 + 2 + 4));
        assert!(touch.is_within(136) && !touch.is_within(135));
        // Pitches of 0 are those of the box.
        let packed = rect([0; 3], [4, 3, 2], (0, 0)).unwrap();
        assert_eq!(packed.to, 4 * 3 * 2);
        assert!(rect([0; 3], [4, 0, 1], (0, 0)).is_none());
        let huge = rect([usize::MAX; 3], [1, 1, 1], (usize::MAX, usize::MAX)).unwrap();
        assert!(!huge.is_within(u64::MAX));
    }

    #[test]
    fn a_range_that_wraps_is_within_nothing() {
        let null = std::ptr::null_mut();
        let touch = Touch::range(null, usize::MAX, 2, Access::Write).unwrap();
        assert!(!touch.is_within(u64::MAX));
    }

    #[test]
    fn what_leaves_an_object_is_reported_and_refused_if_the_settings_say_so() {
        for (api_errors, expected) in [
            (ApiErrors::Off, (false, false)),
            (ApiErrors::Pass, (false, true)),
            (ApiErrors::Refuse, (true, true)),
        ] {
            let t = start(Settings {
                api_errors,
                ..Settings::default()
            });
            t.session
                .objects
                .add(Buffer::of(made(0x100, 64, Place::Bare("a test"))));
            let object = 0x100 as cl_mem;
            let inside = Touch::range(object, 60, 4, Access::Write);
            assert!(!refused("f", &[inside]), "{api_errors:?}");
            assert_eq!(t.recorder.take(), []);
            let touches = [
                Touch::range(object, 0, 4, Access::Read),
                Touch::range(object, 60, 5, Access::Write),
                Touch::range(0x999 as cl_mem, 0, 1000, Access::Write),
            ];
            let refused = refused("f", &touches);
            let kept = t.recorder.take();
            assert_eq!((refused, !kept.is_empty()), expected, "{api_errors:?}");
            if expected.1 {
                let detail = "write of 5 bytes at offset 60 of 64 bytes; 1 byte is outside, \
                              from offset 64 on"
                    .to_owned();
                assert_eq!(kept, [Kept::Call("f", detail)]);
            }
        }
    }

    #[test]
    fn what_lies_outside_is_counted() {
        assert_eq!(
            in_words("read", 100, 200, 64),
            "read of 100 bytes at offset 200 of 64 bytes; 100 bytes are outside, from offset 200 on"
        );
        assert_eq!(
            in_words("read", 100, 0, 64),
            "read of 100 bytes at offset 0 of 64 bytes; 36 bytes are outside, from offset 64 on"
        );
    }

    #[test]
    fn shared_memory_is_judged_from_the_pointer_on() {
        let t = start(Settings {
            api_errors: ApiErrors::Refuse,
            ..Settings::default()
        });
        let buffer = Buffer::of(made(0x1000, 64, Place::Bare("a test")));
        t.session.objects.add_svm(Arc::new(buffer));
        let leaves = |at: usize, size| leaves("f", at as *const c_void, size, Access::Read);
        assert!(!leaves(0x1000, 64));
        assert!(!leaves(0x1040, 0));
        assert!(!leaves(0x5000, 64), "not known");
        assert!(leaves(0x1001, 64));
        assert_eq!(t.recorder.take().len(), 1);
    }
}
