//! Copies and memsets as pieces of work: done at once, in the order of a stream,
//! or as nodes of graphs.

use crate::capture;
use crate::convert::Answer;
use crate::copy::{End, Shape, Side, copy_rows};
use crate::large;
use crate::link::Link;
use crate::managed;
use crate::order::fence;
use crate::printed;
use crate::state::enter;
use crate::work::Work;
use driver::sys::*;
use protocol::{Place, Request};

/// A copy of slices of rows.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    to: Side,
    from: Side,
    /// Bytes from one slice to the next.
    to_slice: u64,
    from_slice: u64,
    shape: Shape,
    depth: u64,
}

impl Transfer {
    /// Of memory in one piece.
    pub(crate) fn linear(to: Side, from: Side, size: u64) -> Transfer {
        Transfer {
            to,
            from,
            to_slice: 0,
            from_slice: 0,
            shape: Shape {
                width: size,
                height: 1,
            },
            depth: 1,
        }
    }

    /// Of the sides of a struct.
    pub(crate) fn new(
        link: &Link,
        to: &End,
        from: &End,
        shape: Shape,
        depth: u64,
    ) -> Result<Transfer, CUresult> {
        let last = depth.saturating_sub(1);
        let stride = |end: &End| -> Result<(Side, u64), CUresult> {
            let first = end.slice(link, 0, shape)?;
            // So that no slice overflows.
            end.slice(link, last, shape)?;
            let stride = match last {
                0 => 0,
                _ => end.slice(link, 1, shape)?.address - first.address,
            };
            Ok((first, stride))
        };
        let ((to, to_slice), (from, from_slice)) = (stride(to)?, stride(from)?);
        Ok(Transfer {
            to,
            from,
            to_slice,
            from_slice,
            shape,
            depth,
        })
    }

    /// The struct that describes it.
    pub(crate) fn described(&self) -> CUDA_MEMCPY3D {
        let height = |slice: u64, side: Side| (slice / side.pitch.max(1)) as usize;
        CUDA_MEMCPY3D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
            srcDevice: self.from.address,
            srcPitch: self.from.pitch as usize,
            srcHeight: height(self.from_slice, self.from),
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_UNIFIED,
            dstDevice: self.to.address,
            dstPitch: self.to.pitch as usize,
            dstHeight: height(self.to_slice, self.to),
            WidthInBytes: self.shape.width as usize,
            Height: self.shape.height as usize,
            Depth: self.depth as usize,
            ..CUDA_MEMCPY3D::zeroed()
        }
    }

    fn is_on_device(&self) -> bool {
        self.to.on_device && self.from.on_device
    }

    /// Whether the side in host memory, if any, is memory that the program has
    /// made known: then it is read and written in the order of the stream.
    fn is_pinned(&self, link: &Link) -> bool {
        let is_pinned =
            |side: Side| side.on_device || link.state.host_memory(side.address).is_some();
        is_pinned(self.to) && is_pinned(self.from)
    }

    /// What puts it into a stream, if the device copies from or to host memory by itself.
    fn behind(&self, link: &Link, stream: u32) -> Option<Vec<Request>> {
        let is_one = self.depth == 1;
        is_one
            .then(|| large::behind(link, stream, (self.to, self.from), self.shape))
            .flatten()
    }

    /// Copies: what is in host memory before this returns. `is_synchronous` as for
    /// [`copy_rows`].
    fn copy(&self, link: &'static Link, stream: u32, is_synchronous: bool) -> Answer {
        managed::push(link, stream)?;
        for slice in 0..self.depth {
            let at = |side: Side, stride: u64| Side {
                address: side.address + slice * stride,
                ..side
            };
            let (to, from) = (at(self.to, self.to_slice), at(self.from, self.from_slice));
            // SAFETY: the program has asked for this copy, so that what is not
            // on the device is its memory, until the copy is over.
            unsafe { copy_rows(link, stream, (to, from), self.shape, is_synchronous) }?;
        }
        Ok(())
    }
}

/// Of a function that returns when it has copied.
pub(crate) fn copy_now(link: &'static Link, stream: u32, transfer: Transfer) -> Answer {
    enter(link)?;
    capture::refuse(link, stream)?;
    if !transfer.is_on_device() {
        link.state.order.wait_stream(link, stream)?;
    }
    transfer.copy(link, stream, true)?;
    printed::behind(link, managed::after(link))
}

/// Of a function that only puts the copy into a stream. CUDA copies from and to
/// memory that it does not know before such a function returns.
pub(crate) fn copy_in(link: &'static Link, stream: u32, transfer: Transfer) -> Answer {
    enter(link)?;
    if capture::is_capturing(link, stream) {
        return capture::put(link, stream, Work::Copy(transfer));
    }
    capture::check_legacy(link, stream)?;
    if transfer.is_pinned(link) {
        return put_late(link, stream, transfer);
    }
    // This copy is never an item of the order, even if another thread has added some since:
    // the program may use its memory again when this returns.
    link.state.order.wait_stream(link, stream)?;
    transfer.copy(link, stream, false)
}

/// Puts a copy into a stream, which reads and writes host memory when it is its
/// turn, or before this returns.
pub(crate) fn put_late(link: &'static Link, stream: u32, transfer: Transfer) -> Answer {
    let order = &link.state.order;
    if let Some(requests) = transfer.behind(link, stream) {
        managed::push(link, stream)?;
        for request in requests {
            order.put(link, request, false)?;
        }
        return Ok(());
    }
    if transfer.is_on_device() || !order.is_held(stream) {
        return transfer.copy(link, stream, false);
    }
    order.add(link, stream, None, false, fence(stream, true))?;
    let copying = move |link: &'static Link| transfer.copy(link, stream, false).map(|()| true);
    order.add(link, stream, None, false, Box::new(copying))?;
    Ok(())
}

/// A memset of rows.
#[derive(Clone, Copy)]
pub(crate) struct Fill {
    pub(crate) address: u64,
    pub(crate) pitch: u64,
    /// Bytes of the value.
    pub(crate) element: u32,
    pub(crate) value: u32,
    /// Elements of a row.
    pub(crate) width: u64,
    pub(crate) height: u64,
}

/// Of a function that puts a memset into a stream, or of one that does it now.
pub(crate) fn fill_in(link: &'static Link, stream: u32, fill: Fill) -> Answer {
    enter(link)?;
    capture::or_do(link, stream, Work::Fill(fill))
}

/// Puts a memset into a stream.
pub(crate) fn put_fill(link: &'static Link, stream: u32, fill: &Fill) -> Answer {
    if fill.width == 0 || fill.height == 0 {
        return Ok(());
    }
    let Fill {
        address,
        pitch,
        element,
        value,
        height,
        ..
    } = *fill;
    let width = fill.width.checked_mul(element.into());
    let place = Place {
        address,
        pitch,
        width: width.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?,
        height,
    };
    let is_aligned = matches!(element, 1 | 2 | 4)
        && address.is_multiple_of(element.into())
        && (height == 1 || pitch.is_multiple_of(element.into()));
    let request = Request::Fill {
        stream,
        place,
        element,
        value,
    };
    let cannot_fail = is_aligned && link.state.holds(&place);
    link.state.order.put(link, request, cannot_fail).map(drop)
}
