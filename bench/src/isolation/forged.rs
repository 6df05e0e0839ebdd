//! Numbers and addresses that this tenant was not given.

use super::neighbour::Neighbour;
use super::raw::Raw;
use super::{Bench, Made};
use anyhow::Result;
use protocol::{Attribute, COPIED_THROUGH, Place, Reply, Request};

/// The word that fills what nobody but the neighbour may read
/// (`bench/kernels/attacks/secret.h`).
const SECRET: u32 = 0x5ec2_e7a5;

/// Words of the neighbour's secret in bytes.
pub fn secrets(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    words.filter(|word| **word == SECRET.to_le_bytes()).count() as u64
}

/// Requests with a number of something, for a tenant that has nothing.
fn with_number(number: u32, mine: Place) -> Vec<Request> {
    let attribute = Attribute {
        attribute: 8,
        value: 1024,
    };
    let launch = |parameters: usize| Request::Launch {
        kernel: number,
        stream: 0,
        grid: [1; 3],
        block: [32, 1, 1],
        shared: 0,
        is_cooperative: false,
        parameters: vec![0; parameters],
    };
    let (stream, event, kernel, module) = (number, number, number, number);
    vec![
        launch(0),
        launch(16),
        launch(24),
        Request::Unload { module },
        Request::SetAttribute { kernel, attribute },
        Request::Occupancy {
            kernel,
            threads: 32,
            shared: 0,
        },
        Request::StreamQuery { stream },
        Request::StreamDestroy { stream },
        Request::StreamWait { stream, event: 1 },
        Request::StreamWait { stream: 0, event },
        Request::EventQuery { event },
        Request::EventRecord { event, stream: 0 },
        Request::EventRecord { event: 1, stream },
        Request::EventElapsed {
            start: event,
            end: 1,
        },
        Request::EventDestroy { event },
        Request::Fill {
            stream,
            place: mine,
            element: 4,
            value: 0x6666,
        },
        Request::Copy {
            stream,
            to: mine,
            from: mine,
        },
        Request::Write { stream, to: mine },
        Request::Read { stream, from: mine },
        Request::ReadStaged {
            stream,
            from: mine,
            offset: 0,
        },
        Request::WriteBehind {
            stream,
            to: mine,
            offset: COPIED_THROUGH,
        },
        Request::ReadBehind {
            stream,
            from: mine,
            offset: COPIED_THROUGH,
        },
    ]
}

/// Numbers of streams, events, modules and kernels.
///
/// # Errors
///
/// The manager does not answer.
pub fn numbers(bench: &Bench<'_>, _neighbour: &mut Neighbour) -> Result<Made> {
    let mut raw = Raw::connect(&bench.manager.socket(), 0)?;
    let mine = Place::linear(raw.allocate(4096)?, 4096);
    let mut made = Made::default();
    let few = 1..64;
    let odd = [255, 256, 0xffff, 1 << 31, u32::MAX - 1, u32::MAX];
    for number in few.chain(odd) {
        for request in with_number(number, mine) {
            made.attempts += 1;
            let payload = match request {
                Request::Write { .. } => vec![0x66; 4096],
                _ => Vec::new(),
            };
            raw.ask(&request, &payload)?;
            made.leaked += secrets(raw.frame.payload());
        }
    }
    Ok(made)
}

/// The neighbour's addresses, and ranges that begin or end there.
///
/// # Errors
///
/// The manager does not answer.
pub fn addresses(bench: &Bench<'_>, neighbour: &mut Neighbour) -> Result<Made> {
    let mut raw = Raw::connect(&bench.manager.socket(), 0)?;
    let own = raw.allocate(4096)?;
    let mine = Place::linear(own, 4096);
    let mut made = Made::default();
    let memory = neighbour.memory;
    for victim in [memory.secret, memory.integers, memory.floats] {
        for place in places(victim, memory.bytes, own) {
            let stream = 0;
            for request in [
                Request::Read {
                    stream,
                    from: place,
                },
                Request::Write { stream, to: place },
                Request::Fill {
                    stream,
                    place,
                    element: 1,
                    value: 0x66,
                },
                Request::Copy {
                    stream,
                    to: mine,
                    from: place,
                },
                Request::Copy {
                    stream,
                    to: place,
                    from: Place {
                        address: own,
                        ..place
                    },
                },
                Request::ReadStaged {
                    stream,
                    from: place,
                    offset: 0,
                },
                Request::WriteStaged {
                    stream,
                    to: place,
                    offset: 0,
                },
                Request::ReadBehind {
                    stream,
                    from: place,
                    offset: COPIED_THROUGH,
                },
                Request::WriteBehind {
                    stream,
                    to: place,
                    offset: COPIED_THROUGH,
                },
                Request::Free {
                    address: place.address,
                },
                Request::Read { stream, from: mine },
            ] {
                made.attempts += 1;
                let payload = match request {
                    Request::Write { .. } => {
                        vec![0x66; (place.width * place.height).min(65536) as usize]
                    }
                    _ => Vec::new(),
                };
                let reply = raw.ask(&request, &payload)?;
                made.leaked += secrets(raw.frame.payload());
                let read_to = match (&request, &reply) {
                    (Request::ReadStaged { offset, .. }, Reply::Done) => Some(*offset),
                    (Request::ReadBehind { offset, .. }, Reply::Done) => {
                        raw.ask(&Request::Synchronize, &[])?;
                        Some(*offset)
                    }
                    _ => None,
                };
                if let Some(offset) = read_to {
                    let mut bytes = vec![0; 4096];
                    raw.channel
                        .staging()
                        .chunk(offset, 4096)?
                        .read(&mut bytes)?;
                    made.leaked += secrets(&bytes);
                }
            }
        }
    }
    Ok(made)
}

/// Places that are the victim's, or that lead there from the tenant's own.
fn places(victim: u64, bytes: u64, own: u64) -> Vec<Place> {
    let rows = |address: u64, pitch: u64, width: u64, height: u64| Place {
        address,
        pitch,
        width,
        height,
    };
    let apart = victim.wrapping_sub(own);
    vec![
        Place::linear(victim, 4096),
        Place::linear(victim, bytes),
        Place::linear(victim.wrapping_sub(64), 128),
        Place::linear(victim + bytes - 16, 64),
        rows(victim, 256, 64, 16),
        rows(own, apart, 64, 2),
        rows(own, apart, 0, 2),
        rows(own, apart.wrapping_neg(), 64, 2),
        rows(victim, own.wrapping_sub(victim), 64, 2),
        rows(own, u64::MAX, 64, 2),
        Place::linear(own, apart.wrapping_add(4096)),
        rows(own, 1 << 63, 64, 3),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_the_programs() {
        let header = include_str!("../../kernels/attacks/secret.h");
        assert!(
            header.contains(&format!("SECRET = {SECRET:#x};")),
            "{header}"
        );
        let mut bytes = vec![0; 8];
        bytes.extend(SECRET.to_le_bytes());
        assert_eq!(secrets(&bytes), 1);
    }
}
