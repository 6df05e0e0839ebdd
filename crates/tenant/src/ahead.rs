//! What may be sent without waiting for its reply: only what cannot fail as far
//! as this process knows, so that a call returns its own errors itself, as
//! natively.

use protocol::{QUIET_IN_A_ROW, Reply, Request};
use std::collections::BTreeMap;

/// Bytes of a copy from host memory at most that is sent without a reply. CUDA
/// copies as many from pageable memory before it returns, and not behind.
pub(crate) const SMALL: u64 = 64 << 10;

/// What is known of the streams, in the order in which requests are sent.
pub(crate) struct Ahead {
    /// By stream, how many requests were sent without a reply since one of that
    /// stream was accepted.
    in_a_row: BTreeMap<u32, u32>,
    /// Nothing was put into any stream since all were idle.
    is_idle: bool,
}

impl Ahead {
    /// Of a tenant that has asked for nothing.
    pub(crate) fn new() -> Ahead {
        Ahead {
            in_a_row: BTreeMap::new(),
            is_idle: true,
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
            return self.is_idle;
        }
        let count = self.in_a_row.entry(stream).or_default();
        if *count >= QUIET_IN_A_ROW {
            return false;
        }
        *count += 1;
        self.is_idle = false;
        true
    }

    /// A request with a reply was sent, and this came.
    pub(crate) fn answered(&mut self, request: &Request, reply: &Reply) {
        match request {
            Request::Synchronize | Request::Reset if *reply == Reply::Done => {
                self.in_a_row.clear();
                self.is_idle = true;
                return;
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
            _ => self.is_idle = false,
        }
        if let (Some(stream), Reply::Done) = (request.stream(), reply) {
            self.in_a_row.remove(&stream);
        }
    }
}
