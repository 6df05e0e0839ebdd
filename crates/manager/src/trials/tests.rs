//! Tenants on a device that executes what is at the heads of all streams in the order
//! in which it came there, by the rules of turns, trials and budget together.

use super::*;
use crate::budget::{Budget, Known};
use crate::fair::{BOUND, Pieces, Share};
use crate::turns::{Turn, Turns};
use crate::weights::{QUANTUM, Weights};
use proptest::prelude::*;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// Times are in ticks of a millisecond, and all streams are looked at in each.
const LIMIT: u64 = 400;
/// Work in one stream.
const ROOM: usize = 64;

fn ticks(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// What a tenant does.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Puts in as many pieces of this length as it may, in so many streams.
    Floods { length: u64, streams: usize },
    /// Puts one in, waits for it, and rests.
    Rounds { length: u64, rest: u64 },
    /// Puts in one without end behind so many short ones, in so many streams.
    Endless { behind: usize, streams: usize },
    /// As often as it may: many short ones, and when it is known for those, as many of
    /// this length as it may.
    Bursts { length: u64, streams: usize },
}

/// A piece of work.
#[derive(Clone, Copy, Debug)]
struct Piece {
    left: u64,
    put: u64,
}

/// A piece without end.
const ENDLESS: u64 = u64::MAX;

#[derive(Default)]
struct Stream {
    pieces: VecDeque<Piece>,
    /// When the first one came to the head, in the order of all heads.
    head: u64,
    runs: bool,
    done: u64,
    moved: u64,
}

struct Tenant {
    does: Does,
    begins: u64,
    turn: Arc<Turn>,
    streams: Vec<Stream>,
    rests_until: u64,
    puts: usize,
    is_ended: bool,
    was_refused: bool,
    /// The longest time from a put to its end.
    longest: u64,
    /// How long its work has run.
    ran: u64,
}

struct World {
    start: Instant,
    now: u64,
    heads: u64,
    /// In which order heads are taken up that wait: 0, in that in which they came.
    mix: u64,
    /// Pieces that run at a time.
    slots: usize,
    turns: Arc<Turns>,
    budget: Budget,
    trials: Trials,
    weights: Weights,
    tenants: Vec<Tenant>,
    ended: Vec<usize>,
}

impl World {
    fn new(slots: usize, tenants: &[(u64, Does)]) -> World {
        let tenants: Vec<_> = tenants.iter().map(|one| (*one, 1)).collect();
        World::weighed(slots, &tenants)
    }

    /// Each with its weight.
    fn weighed(slots: usize, tenants: &[((u64, Does), u32)]) -> World {
        let turns = Turns::new(Some(ticks(LIMIT / 4)));
        let tenants = tenants
            .iter()
            .zip(1..)
            .map(|(((begins, does), weight), number)| {
                let streams = match does {
                    Does::Floods { streams, .. }
                    | Does::Endless { streams, .. }
                    | Does::Bursts { streams, .. } => *streams,
                    Does::Rounds { .. } => 1,
                };
                Tenant {
                    does: *does,
                    begins: *begins,
                    turn: turns.turn(number, *weight),
                    streams: (0..streams).map(|_| Stream::default()).collect(),
                    rests_until: 0,
                    puts: 0,
                    is_ended: false,
                    was_refused: false,
                    longest: 0,
                    ran: 0,
                }
            });
        World {
            start: Instant::now(),
            now: 0,
            heads: 0,
            mix: 0,
            slots,
            tenants: tenants.collect(),
            turns,
            budget: Budget::new(ticks(LIMIT)),
            trials: Trials::new(ticks(LIMIT)),
            weights: Weights::default(),
            ended: Vec::new(),
        }
    }

    /// Executes for a tick.
    fn execute(&mut self) {
        let running = |tenants: &[Tenant]| {
            let all = tenants.iter().flat_map(|tenant| &tenant.streams);
            all.filter(|stream| stream.runs).count()
        };
        while running(&self.tenants) < self.slots {
            let all = self.tenants.iter_mut().flat_map(|one| &mut one.streams);
            let waiting = all.filter(|stream| !stream.runs && !stream.pieces.is_empty());
            match waiting.min_by_key(|stream| stream.head + self.mix * (stream.head * 7 % 5)) {
                Some(first) => first.runs = true,
                None => break,
            }
        }
        let now = self.now;
        for tenant in &mut self.tenants {
            for stream in tenant.streams.iter_mut().filter(|stream| stream.runs) {
                let Some(piece) = stream.pieces.front_mut() else {
                    continue;
                };
                tenant.ran += 1;
                // (Who was ended ends at its next look.)
                let is_over = tenant.is_ended || piece.left == 1;
                if !is_over {
                    piece.left = piece.left.saturating_sub(u64::from(piece.left != ENDLESS));
                    continue;
                }
                let put = piece.put;
                stream.pieces.pop_front();
                (stream.runs, stream.done) = (false, stream.done + 1);
                let began = std::mem::replace(&mut stream.moved, now).max(put);
                let mut pieces = Pieces::default();
                pieces.add(Share::WHOLE);
                // (Of these, several take no longer than a tick.)
                let took = match tenant.does {
                    Does::Bursts { .. } if now - began < 2 => Duration::from_micros(10),
                    _ => ticks(now - began + 1),
                };
                let at = self.start + ticks(now);
                tenant.turn.over(pieces, Some(took), true, at);
                tenant.longest = tenant.longest.max(now - put);
                self.heads += 1;
                stream.head = self.heads;
                if let Does::Rounds { rest, .. } = tenant.does {
                    tenant.rests_until = now + rest;
                }
            }
        }
    }

    /// Puts in what tenants have.
    fn put(&mut self) {
        let now = self.now;
        for tenant in &mut self.tenants {
            if tenant.is_ended || now < tenant.begins.max(tenant.rests_until) {
                continue;
            }
            loop {
                let at = tenant.puts % tenant.streams.len();
                let in_flight = tenant.streams[at].pieces.len();
                let cycle = tenant.puts % 400;
                let length = match tenant.does {
                    Does::Bursts { length, .. } if cycle >= 300 => length,
                    Does::Bursts { .. } => 1,
                    Does::Floods { length, .. } if in_flight < ROOM => length,
                    Does::Rounds { length, .. } if in_flight == 0 => length,
                    Does::Endless { behind, .. } if tenant.puts < behind => 1,
                    Does::Endless { behind, streams } if tenant.puts < behind + streams => ENDLESS,
                    _ => break,
                };
                let clock = || self.start + ticks(now);
                if !tenant.turn.may_put(Share::WHOLE, in_flight == 0, clock) {
                    tenant.was_refused = true;
                    break;
                }
                tenant.turn.put(Share::WHOLE);
                tenant.puts += 1;
                let stream = &mut tenant.streams[at];
                if stream.pieces.is_empty() {
                    self.heads += 1;
                    stream.head = self.heads;
                }
                stream.pieces.push_back(Piece {
                    left: length,
                    put: now,
                });
            }
        }
    }

    /// Looks at all streams.
    fn look(&mut self) {
        let now = ticks(self.now);
        let mut seen = Vec::new();
        for (tenant, number) in self.tenants.iter().zip(1..) {
            for stream in &tenant.streams {
                seen.push(Seen {
                    tenant: number,
                    stream: seen.len() as u64,
                    work: match stream.pieces.front() {
                        None => Work::Idle { done: stream.done },
                        Some(first) => Work::Queued {
                            done: stream.done,
                            since: ticks(first.put),
                        },
                    },
                    role: match tenant.is_ended {
                        true => Role::Ended,
                        false => Role::Tenant,
                    },
                });
            }
        }
        let trials = &self.trials;
        let known = Known {
            held_for: trials.tenant(),
            runs: &|one| trials.is_runner(one),
            is_left: &|tenant| self.turns.is_left(tenant),
        };
        if let Some(tenant) = self.budget.look(now, &seen, &known) {
            let at = tenant as usize - 1;
            self.tenants[at].is_ended = true;
            self.ended.push(at);
        }
        let budget = &self.budget;
        let trial = self.trials.look(now, &seen, |one| budget.age(now, one));
        let busy: HashSet<u64> = seen
            .iter()
            .filter(|one| queued(one).is_some())
            .map(|one| one.tenant)
            .collect();
        let by_weight = self.weights.look(now, &self.turns.weighed(&busy));
        self.turns.settle(now, &busy, trial.or(by_weight));
    }

    fn run(&mut self, time: u64) {
        for _ in 0..time {
            self.now += 1;
            self.execute();
            self.put();
            self.look();
        }
    }

    fn tick(&mut self) {
        self.run(1);
    }

    /// Of a tenant that is waited for, how long pieces took from now on.
    fn forget(&mut self) {
        for tenant in &mut self.tenants {
            (tenant.longest, tenant.ran) = (0, 0);
        }
    }
}

const NEIGHBOUR: Does = Does::Rounds { length: 2, rest: 3 };

/// Many streams that are full of kernels which each end in time, while the neighbour is
/// there: it waits for one of them, or for what takes as long as the bound.
#[test]
fn a_flood_of_kernels_that_end_in_time_starves_nobody() {
    for length in [1, 5, 30, 90] {
        let flood = Does::Floods { length, streams: 8 };
        let mut world = World::new(1, &[(1, NEIGHBOUR), (20, flood)]);
        world.run(8 * LIMIT);
        world.forget();
        world.run(8 * LIMIT);
        let bound = 2 * length + BOUND.as_millis() as u64 + 5;
        assert!(
            world.tenants[0].longest <= bound,
            "{length}: {}",
            world.tenants[0].longest
        );
        assert!(world.tenants[1].longest > 0);
        assert_eq!(world.ended, [] as [usize; 0]);
    }
}

/// Beside so many neighbours, what a tenant does for a time ends none of them, and keeps
/// none waiting for long.
#[track_caller]
fn ends_no_neighbour(does: Does, neighbours: usize, time: u64) {
    let mut tenants = vec![(1, NEIGHBOUR); neighbours];
    tenants.push((20, does));
    let mut world = World::new(1, &tenants);
    world.run(time);
    let what = format!("{does:?}: {:?}", world.ended);
    assert!(world.ended.iter().all(|at| *at == neighbours), "{what}");
    for tenant in &world.tenants[..neighbours] {
        assert!(tenant.longest <= 4 * LIMIT, "{what}: {}", tenant.longest);
    }
}

/// Kernels that each end in time, and take long: neighbours wait for some of them, and
/// none of them is ended. Who has had so many in flight that they wait for longer may be.
#[test]
fn long_kernels_end_no_neighbour() {
    for (length, streams, neighbours) in [
        (120, 8, 7),
        (180, 8, 7),
        (250, 8, 3),
        (120, 1, 7),
        (380, 1, 2),
        (380, 3, 2),
    ] {
        ends_no_neighbour(Does::Floods { length, streams }, neighbours, 20 * LIMIT);
    }
}

/// Who was known for short kernels has as many long ones in flight as it likes: it may
/// be ended, and its neighbours are not.
#[test]
fn a_burst_of_long_kernels_ends_no_neighbour() {
    for (length, streams, neighbours) in [(30, 1, 3), (90, 8, 7), (300, 1, 1), (390, 8, 3)] {
        ends_no_neighbour(Does::Bursts { length, streams }, neighbours, 40 * LIMIT);
    }
}

/// What was put in while nobody else had work is not taken back: one of each stream
/// is before each piece of the neighbour, until all of it is over.
#[test]
fn what_was_queued_alone_is_over_some_time() {
    let flood = Does::Floods {
        length: 10,
        streams: 8,
    };
    let mut world = World::new(1, &[(1, flood), (20, NEIGHBOUR)]);
    world.run(8 * ROOM as u64 * 10 + LIMIT);
    assert!(world.tenants[1].longest <= 9 * 10 + 3);
    world.forget();
    world.run(4 * LIMIT);
    assert!(
        world.tenants[1].longest <= 25,
        "{}",
        world.tenants[1].longest
    );
}

/// It began after the neighbour had put in its work, but before that ran.
#[test]
fn who_is_known_to_run_is_ended_and_no_other() {
    let (limit, tenant) = (ticks(LIMIT), |tenant, done, since| Seen {
        tenant,
        stream: tenant,
        work: Work::Queued {
            done,
            since: ticks(since),
        },
        role: Role::Tenant,
    });
    for is_known in [false, true] {
        let mut budget = Budget::new(limit);
        let seen = [tenant(1, 0, 50), tenant(2, 0, 10)];
        let known = Known {
            held_for: None,
            runs: &|one| is_known && one.tenant == 1,
            is_left: &|_| false,
        };
        let ended = (60..2 * LIMIT).find_map(|now| budget.look(ticks(now), &seen, &known));
        assert_eq!(ended, Some(if is_known { 1 } else { 2 }));
    }
    // Of two that are known to run beside each other, none.
    let mut budget = Budget::new(limit);
    let seen = [tenant(1, 0, 50), tenant(2, 0, 10)];
    let known = Known {
        held_for: None,
        runs: &|_| true,
        is_left: &|_| false,
    };
    let ended = (60..4 * LIMIT).find_map(|now| budget.look(ticks(now), &seen, &known));
    assert_eq!(ended, None);
}

/// Each of two kernels that outlast the budget is alone when it is looked at.
#[test]
fn trials_find_who_runs_and_do_not_repeat() {
    let endless = Does::Endless {
        behind: 3,
        streams: 1,
    };
    let mut world = World::new(2, &[(1, NEIGHBOUR), (20, endless)]);
    let (mut trials, mut is_held) = (0, false);
    for _ in 0..10 * LIMIT {
        world.tick();
        let held_for = world.trials.trial.map(|trial| trial.tenant);
        trials += u32::from(held_for.is_some() && !is_held);
        is_held = held_for.is_some();
        assert!(held_for.is_none_or(|tenant| tenant == 2));
    }
    // One, and as short as the neighbour's work.
    assert_eq!(trials, 1);
    assert_eq!(world.trials.runners.len(), 1);
    assert!(
        world.tenants[0].longest <= 10,
        "{}",
        world.tenants[0].longest
    );
    assert_eq!(world.ended, [] as [usize; 0]);
}

fn ends_in_time() -> impl Strategy<Value = Does> {
    prop_oneof![
        (1u64..40, 1usize..9).prop_map(|(length, streams)| Does::Floods { length, streams }),
        (1u64..40, 0u64..60).prop_map(|(length, rest)| Does::Rounds { length, rest }),
    ]
}

/// Each piece ends within a budget.
fn long() -> impl Strategy<Value = Does> {
    let (lengths, streams) = (20u64..LIMIT - 10, 1usize..9);
    prop_oneof![
        (lengths.clone(), streams.clone())
            .prop_map(|(length, streams)| Does::Floods { length, streams }),
        (lengths, streams).prop_map(|(length, streams)| Does::Bursts { length, streams }),
    ]
}

fn endless() -> impl Strategy<Value = Does> {
    (0usize..12, 1usize..4).prop_map(|(behind, streams)| Does::Endless { behind, streams })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Who has work gets on within a bound if each piece of the others ends in time, and
    /// nobody is ended.
    #[test]
    fn nobody_starves(
        others in prop::collection::vec((20u64..400, ends_in_time()), 1..5),
        slots in 1usize..4,
    ) {
        let mut tenants = vec![(1, NEIGHBOUR)];
        tenants.extend(&others);
        let mut world = World::new(slots, &tenants);
        world.run(20 * LIMIT);
        prop_assert_eq!(&world.ended, &[] as &[usize]);
        // Before anything is known of a tenant, it has some pieces in flight.
        let most = others.iter().map(|(_, does)| match does {
            Does::Floods { length, .. } => 4 * length + 2 * BOUND.as_millis() as u64,
            _ => 40,
        });
        let bound = most.sum::<u64>() + LIMIT / 4;
        prop_assert!(world.tenants[0].longest <= bound, "{} > {bound}", world.tenants[0].longest);
        for tenant in &mut world.tenants {
            tenant.longest = 0;
        }
        world.run(20 * LIMIT);
        prop_assert!(world.tenants.iter().all(|tenant| tenant.longest > 0));
    }

    /// Tenants that always have work get parts of the time in proportion to their
    /// weights, however long their kernels are and however many streams they have.
    #[test]
    fn time_is_divided_by_weight(
        floods in prop::collection::vec((1u64..30, 1usize..4, 1u32..9), 2..4),
    ) {
        let tenants: Vec<_> = floods
            .iter()
            .map(|(length, streams, weight)| {
                let (length, streams) = (*length, *streams);
                ((1, Does::Floods { length, streams }), *weight)
            })
            .collect();
        let mut world = World::weighed(1, &tenants);
        // What each put in before the others came has to be over first.
        world.run(60 * LIMIT);
        world.forget();
        let time = 60 * LIMIT;
        world.run(time);
        prop_assert_eq!(&world.ended, &[] as &[usize]);
        let all: u32 = floods.iter().map(|(.., weight)| weight).sum();
        let least = floods.iter().map(|(.., weight)| *weight).min().unwrap_or(1);
        let are_equal = floods.iter().all(|(.., weight)| *weight == least);
        let turns = time * u64::from(least) / (QUANTUM.as_millis() as u64 * u64::from(all));
        let ran: u64 = world.tenants.iter().map(|tenant| tenant.ran).sum();
        // The device has a piece to run nearly always.
        prop_assert!(ran * 10 >= time * 8, "{ran} of {time}");
        for (tenant, (length, _, weight)) in world.tenants.iter().zip(&floods) {
            let expected = time * u64::from(*weight) / u64::from(all);
            let round = QUANTUM.as_millis() as u64 * u64::from(*weight) / u64::from(least);
            // Turns begin and end when somebody looks, and who has one waits for its
            // host now and then.
            let slack = time / 100 + 2 * (round + length) + 3 * turns;
            prop_assert!(
                are_equal || tenant.ran.abs_diff(expected) <= slack,
                "{} of {ran}, and {expected} is expected of {floods:?}",
                tenant.ran
            );
        }
    }

    /// Who is alone is never held back and never ended, whatever it does.
    #[test]
    fn who_is_alone_is_not_held(does in prop_oneof![ends_in_time(), endless()], slots in 1usize..4) {
        let mut world = World::new(slots, &[(1, does)]);
        for _ in 0..5 * LIMIT {
            world.tick();
            // (A trial of its own holds back nobody else.)
            prop_assert!(!world.tenants[0].was_refused && world.ended.is_empty());
        }
    }

    /// However long the kernels of others are that each end in time, and in whatever order
    /// the device takes them up: neighbours with short kernels get on, and none of them is
    /// ended.
    #[test]
    fn long_kernels_of_others_end_no_neighbour(
        bad in prop::collection::vec((20u64..400, long()), 1..3),
        neighbours in 1usize..7,
        slots in 1usize..3,
        mix in 0u64..8,
    ) {
        let mut tenants = vec![(1, NEIGHBOUR); neighbours];
        tenants.extend(&bad);
        let mut world = World::new(slots, &tenants);
        world.mix = mix;
        world.run(30 * LIMIT);
        for at in &world.ended {
            prop_assert!(*at >= neighbours, "neighbour {at} was ended");
        }
        for tenant in &world.tenants[..neighbours] {
            let bound = 6 * LIMIT * bad.len() as u64;
            prop_assert!(tenant.longest <= bound, "{}", tenant.longest);
        }
    }

    /// Kernels of an accomplice that take long, one after the other, do not keep one from
    /// being ended that takes the device for ever.
    #[test]
    fn accomplices_do_not_help_who_does_not_end(
        bad in endless(),
        begins in 1u64..900,
        accomplices in prop::collection::vec((20u64..400, long()), 1..3),
        neighbours in 1usize..4,
        slots in 1usize..3,
    ) {
        let mut tenants = vec![(1, NEIGHBOUR); neighbours];
        tenants.push((begins, bad));
        tenants.extend(&accomplices);
        let mut world = World::new(slots, &tenants);
        world.run(60 * LIMIT);
        for at in &world.ended {
            prop_assert!(*at >= neighbours, "neighbour {at} was ended");
        }
        for tenant in &mut world.tenants[..neighbours] {
            prop_assert!(tenant.longest <= 12 * LIMIT, "{}", tenant.longest);
            tenant.longest = 0;
        }
        world.run(12 * LIMIT);
        for tenant in &world.tenants[..neighbours] {
            prop_assert!(tenant.longest > 0);
        }
    }

    /// Whoever is ended has a piece without end; and where such a one has the device,
    /// it is ended in time, and the neighbours go on.
    #[test]
    fn who_does_not_end_is_ended_and_no_other(
        bad in prop::collection::vec((20u64..900, endless()), 1..4),
        good in prop::collection::vec((1u64..300, ends_in_time()), 1..3),
        slots in 1usize..3,
    ) {
        // Who waits for one piece of each other stream must not wait for a budget.
        let pieces = good.iter().map(|(_, does)| match does {
            Does::Floods { length, streams } => length * *streams as u64,
            Does::Rounds { length, .. } => *length,
            Does::Endless { .. } | Does::Bursts { .. } => 0,
        });
        prop_assume!(pieces.sum::<u64>() + 4 * bad.len() as u64 <= LIMIT);
        let tenants: Vec<(u64, Does)> = bad.iter().chain(&good).copied().collect();
        let mut world = World::new(slots, &tenants);
        let enough = 900 + 3 * LIMIT * (1 + bad.len() as u64) + 8 * ROOM as u64 * 40;
        world.run(enough);
        for at in &world.ended {
            prop_assert!(*at < bad.len(), "tenant {at} of {:?} was ended", tenants);
        }
        world.forget();
        world.run(20 * LIMIT);
        for tenant in &world.tenants[bad.len()..] {
            prop_assert!(tenant.longest > 0);
        }
    }
}
