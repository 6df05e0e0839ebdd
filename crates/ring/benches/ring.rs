//! How fast frames go from one end to the other.
//!
//! Both ends are threads of this process, each with a mapping of its own, as
//! two processes have. `enqueue` is what a launch costs the tenant; `round trip`
//! is a question and its answer: with both sides spinning, with the limit that
//! is the default, and with both sides sleeping at once. Where the other side
//! has no processor of its own, spinning costs its turn of the scheduler.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ring::{Endpoint, Error, Layout};
use std::hint::black_box;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

const LONG: Option<Duration> = Some(Duration::from_secs(60));
const SPIN: Duration = Duration::from_millis(100);

/// Manager and client.
fn pair(ring: u64, staging: u64) -> (Endpoint, Endpoint) {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    let client = thread::spawn(move || ring::connect(theirs, SPIN * 100).expect("client"));
    let layout = Layout::new(ring, ring, staging).expect("layout");
    let manager = ring::accept(ours, &layout, SPIN * 100).expect("manager");
    (manager, client.join().expect("client"))
}

/// Takes all frames until the peer is gone, and answers those without bytes.
fn drain(mut end: Endpoint) {
    end.receiver.spin().set_limit(SPIN);
    let mut frame = Vec::new();
    while end.receiver.receive(&mut frame, LONG) != Err(Error::Gone) {
        if black_box(&frame).is_empty() {
            end.sender.send(&[], LONG).expect("answer");
        }
    }
}

/// Sends every frame back until the peer is gone.
fn echo(mut end: Endpoint, spin: Duration) {
    end.receiver.spin().set_limit(spin);
    let mut frame = Vec::new();
    while end.receiver.receive(&mut frame, LONG) != Err(Error::Gone) {
        end.sender.send(&frame, LONG).expect("echo");
    }
}

/// Time of one `try_send` of 64 bytes, with room; the receiver takes frames
/// meanwhile.
fn enqueue(criterion: &mut Criterion) {
    // Fits into the ring as a whole.
    const BATCH: u64 = 4096;
    let (manager, mut client) = pair(1 << 20, 0);
    let other = thread::spawn(|| drain(manager));
    let mut answer = Vec::new();
    criterion.bench_function("enqueue/64", |bencher| {
        bencher.iter_custom(|count| {
            let mut total = Duration::ZERO;
            let mut left = count;
            while left > 0 {
                // The ring is empty when the answer comes.
                client.sender.send(&[], LONG).expect("room");
                client.receiver.receive(&mut answer, LONG).expect("answer");
                let batch = left.min(BATCH);
                let start = Instant::now();
                for _ in 0..batch {
                    client.sender.try_send(black_box(&[1; 64])).expect("room");
                }
                total += start.elapsed();
                left -= batch;
            }
            total
        });
    });
    drop(client);
    other.join().expect("receiver");
}

fn round_trip(criterion: &mut Criterion) {
    for (name, spin) in [
        ("spinning", SPIN),
        ("adaptive", ring::SPIN),
        ("asleep", Duration::ZERO),
    ] {
        let (manager, mut client) = pair(1 << 16, 0);
        client.receiver.spin().set_limit(spin);
        let other = thread::spawn(move || echo(manager, spin));
        let mut frame = Vec::new();
        criterion.bench_function(&format!("round trip/64/{name}"), |bencher| {
            bencher.iter(|| {
                client.sender.send(&[1; 64], LONG).expect("send");
                client.receiver.receive(&mut frame, LONG).expect("receive");
            });
        });
        drop(client);
        other.join().expect("echo");
    }
}

fn one_way(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one way");
    for size in [64, 4 << 10, 256 << 10] {
        let (manager, mut client) = pair(4 << 20, 0);
        client.sender.spin().set_limit(SPIN);
        let other = thread::spawn(|| drain(manager));
        let frame = vec![1; size];
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
            bencher.iter(|| client.sender.send(&frame, LONG).expect("send"));
        });
        drop(client);
        other.join().expect("receiver");
    }
}

fn staging(criterion: &mut Criterion) {
    const SIZE: u64 = 64 << 20;
    let (_manager, client) = pair(1 << 16, SIZE);
    let chunk = client.staging.chunk(0, SIZE).expect("chunk");
    let mut bytes = vec![1; SIZE as usize];
    let mut group = criterion.benchmark_group("staging");
    group.throughput(Throughput::Bytes(SIZE));
    group.bench_function("write", |bencher| {
        bencher.iter(|| chunk.write(&bytes));
    });
    group.bench_function("read", |bencher| {
        bencher.iter(|| chunk.read(&mut bytes));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(30);
    targets = enqueue, round_trip, one_way, staging
}
criterion_main!(benches);
