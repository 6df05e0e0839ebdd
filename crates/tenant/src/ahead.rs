//! What may be sent without waiting for its reply: only what cannot fail as far
//! as this process knows, so that a call returns its own errors itself, as
//! natively.

use protocol::{COPIED_THROUGH, DEFAULT_STREAM, QUIET_IN_A_ROW, Reply, Request};
use std::collections::BTreeMap;

/// Bytes of a copy from host memory at most that is sent without a reply. CUDA
/// copies as many from pageable memory before it returns, and not behind.
pub(crate) const SMALL: u64 = 64 << 10;

/// What is known of the streams, in the order in which requests are sent.
pub(crate) struct Ahead {
    /// By stream, how many requests were sent without a reply since one of that
    /// stream was accepted.
    in_a_row: BTreeMap<u32, u32>,
    /// The streams that something was put into since they were known to be idle, and
    /// whether it was anything but uploads ([`crate::through`]).
    busy: BTreeMap<u32, bool>,
    /// By stream, how often something was put into it.
    puts: BTreeMap<u32, u64>,
}

impl Ahead {
    /// Of a tenant that has asked for nothing.
    pub(crate) fn new() -> Ahead {
        Ahead {
            in_a_row: BTreeMap::new(),
            busy: BTreeMap::new(),
            puts: BTreeMap::new(),
        }
    }

    /// Whether the manager does it at once. If so, it is counted as sent.
    pub(crate) fn may_send(&mut self, request: &Request) -> bool {
        let Some(stream) = request.stream().filter(|_| request.may_be_quiet()) else {
            return false;
        };
        // A copy from host memory waits for all that comes before it, and
        // nothing behind it would be done meanwhile.
        if matches!(request, Request::Write { .. }) {
            return self.busy.is_empty();
        }
        let count = self.in_a_row.entry(stream).or_default();
        if *count >= QUIET_IN_A_ROW {
            return false;
        }
        *count += 1;
        *self.puts.entry(stream).or_default() += 1;
        let is_upload =
            matches!(request, Request::WriteBehind { offset, .. } if *offset < COPIED_THROUGH);
        *self.busy.entry(stream).or_default() |= !is_upload;
        true
    }

    /// Whether something may be in a stream.
    pub(crate) fn is_busy(&self, stream: u32) -> bool {
        self.busy.contains_key(&stream)
    }

    /// Whether nothing is in any stream but uploads, whose sources are free already.
    pub(crate) fn has_uploads_alone(&self) -> bool {
        !self.busy.values().any(|has_more| *has_more)
    }

    /// How often something was put into a stream; into the default one, which is idle when
    /// others are, and without one, into any.
    pub(crate) fn puts(&self, stream: Option<u32>) -> u64 {
        match stream {
            None | Some(DEFAULT_STREAM) => self.puts.values().sum(),
            Some(stream) => self.puts.get(&stream).copied().unwrap_or(0),
        }
    }

    /// The streams that something may be in. The default one is always there, and the last:
    /// the manager puts before it what is left in a stream that another thread destroys.
    pub(crate) fn busy(&self) -> Vec<u32> {
        let others = self.busy.keys().copied();
        let others = others.filter(|stream| *stream != DEFAULT_STREAM);
        others.chain([DEFAULT_STREAM]).collect()
    }

    /// A request with a reply was sent, and this came.
    pub(crate) fn answered(&mut self, request: &Request, reply: &Reply) {
        match request {
            Request::Synchronize | Request::Reset | Request::Free { .. }
                if *reply == Reply::Done =>
            {
                self.in_a_row.clear();
                self.busy.clear();
                return;
            }
            // These are done when all is over that their stream comes after, and leave
            // nothing in it.
            Request::Write { stream, .. }
            | Request::Read { stream, .. }
            | Request::WriteStaged { stream, .. }
            | Request::ReadStaged { stream, .. }
            | Request::StreamQuery { stream }
                if matches!(reply, Reply::Done | Reply::Bytes) =>
            {
                self.busy.remove(stream);
            }
            Request::Allocate { .. }
            | Request::MemoryInfo
            | Request::Write { .. }
            | Request::Read { .. }
            | Request::WriteStaged { .. }
            | Request::ReadStaged { .. }
            | Request::Upload
            | Request::Occupancy { .. }
            | Request::SetAttribute { .. }
            | Request::StreamQuery { .. }
            | Request::EventCreate { .. }
            | Request::EventDestroy { .. }
            | Request::EventQuery { .. }
            | Request::EventElapsed { .. }
            | Request::Printed
            | Request::GetLimit { .. }
            | Request::SetLimit { .. }
            | Request::Synchronize => {}
            // The manager puts what is left in it before the default one.
            Request::StreamDestroy { stream } => {
                self.busy.remove(stream);
                self.busy.insert(DEFAULT_STREAM, true);
            }
            _ => {
                // (Into the default one the manager itself puts things, too.)
                let stream = request.stream().unwrap_or(DEFAULT_STREAM);
                self.busy.insert(stream, true);
            }
        }
        if let (Some(stream), Reply::Done) = (request.stream(), reply) {
            self.in_a_row.remove(&stream);
            *self.puts.entry(stream).or_default() += u64::from(request.may_be_quiet());
        }
    }
}
