//! Scans by the device's checker: a launch's canaries in rounds, each one
//! kernel and one read of its answers. The canaries of images are copied into a
//! buffer before, and back, repaired, after.

use crate::canaries::checker::{Answers, Checker, MOST, Plan};
use crate::canaries::scan::{Held, Scan, bring_back};
use crate::findings::Damaged;
use crate::objects::block::Memory;
use crate::platform::commands::{Commands, Followed};
use crate::sys::*;
use heap::canary::Side;
use heap::pieces::{Answer, Piece};
use std::ops::Range;
use std::sync::Arc;

/// A round: the scans that one kernel makes.
pub struct Round {
    checker: Arc<Checker>,
    /// Numbers of the scans.
    scans: Range<usize>,
    plan: Arc<Plan>,
    answers: Answers,
}

impl Round {
    /// Enqueues all scans; `rounds` gets what was enqueued, also if it fails.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn enqueue_all(
        checker: &Arc<Checker>,
        scans: &[Scan],
        commands: &mut Commands,
        rounds: &mut Vec<Round>,
    ) -> Result<(), cl_int> {
        for (number, scans) in scans.chunks(MOST).enumerate() {
            let names: Vec<u64> = scans.iter().map(Scan::name).collect();
            let plan = checker
                .plan(&names, || pieces(scans))
                .ok_or(CL_OUT_OF_RESOURCES)?;
            let answers = checker.answers(&plan).ok_or(CL_OUT_OF_RESOURCES)?;
            let start = number * MOST;
            rounds.push(Round {
                checker: checker.clone(),
                scans: start..start + scans.len(),
                plan,
                answers,
            });
            if let Some(round) = rounds.last_mut() {
                round.enqueue(scans, commands)?;
            }
        }
        Ok(())
    }

    fn enqueue(&mut self, scans: &[Scan], commands: &mut Commands) -> Result<(), cl_int> {
        let queue = commands.queue;
        let mut memories = Vec::new();
        let mut gathered = Vec::new();
        for scan in scans {
            memories.push(match scan.held() {
                Some(Held::Block(block)) => block.memory,
                Some(Held::Image(padded)) => {
                    let strips = padded.strips().ok_or(CL_OUT_OF_RESOURCES)?;
                    gathered.push(commands.add(&[], Followed::ByCommands, |after, events| {
                        padded.gather(queue, strips, after, events)
                    })?);
                    Memory::Buffer(strips as usize)
                }
                None => return Err(CL_INVALID_MEM_OBJECT),
            });
            bring_back(scan, commands)?;
        }
        let (checker, plan) = (&self.checker, &self.plan);
        let verified = commands.add(&gathered, Followed::ByCommands, |after, events| {
            events
                .add(|event| checker.verify(queue, &memories, (plan, &self.answers), after, event))
        })?;
        for scan in scans {
            if let Some(Held::Image(padded)) = scan.held()
                && let Some(strips) = padded.strips()
            {
                commands.add(&[verified], Followed::ByTheEnd, |after, events| {
                    padded.scatter(queue, strips, after, events)
                })?;
            }
        }
        let answers = &mut self.answers;
        commands.add(&[verified], Followed::ByTheEnd, |after, events| {
            events.add(|event| answers.read(queue, plan, after, event))
        })?;
        Ok(())
    }

    /// What the answers, once read, show of each scan.
    pub fn damages(&self, scans: &[Scan], found: &dyn Fn(&Scan, Vec<Damaged>)) {
        if !self.answers.any(&self.plan) {
            return;
        }
        let all = self.answers.all(&self.plan);
        let Some(scans) = scans.get(self.scans.clone()) else {
            return;
        };
        for (number, scan) in (0u32..).zip(scans) {
            let own: Vec<(Piece, Answer)> = all
                .iter()
                .filter(|(piece, _)| piece.argument == number)
                .copied()
                .collect();
            // Canaries in their order; each starts with a piece that has
            // nothing before it.
            let mut canaries: Vec<Vec<(Piece, Answer)>> = Vec::new();
            for (piece, answer) in own {
                match canaries.last_mut() {
                    Some(canary) if piece.before > 0 => canary.push((piece, answer)),
                    _ => canaries.push(vec![(piece, answer)]),
                }
            }
            found(scan, damages(scan, &canaries));
        }
    }

    /// No command writes the answers any more.
    pub fn end(self) {
        self.checker.take_back(self.answers);
    }
}

fn damages(scan: &Scan, canaries: &[Vec<(Piece, Answer)>]) -> Vec<Damaged> {
    match scan.held() {
        Some(Held::Block(block)) => [Side::Before, Side::After]
            .into_iter()
            .zip(canaries)
            .filter_map(|(side, answers)| block.layout.damage(side, answers))
            .map(Damaged::Bytes)
            .collect(),
        Some(Held::Image(padded)) => {
            let damages = padded.levels.damage(canaries);
            damages.into_iter().map(Damaged::Pixels).collect()
        }
        None => Vec::new(),
    }
}

/// The pieces of some scans, each an argument; `None`: one is too large.
fn pieces(scans: &[Scan]) -> Option<Vec<Piece>> {
    let mut all = Vec::new();
    for (number, scan) in (0u32..).zip(scans) {
        match scan.held()? {
            Held::Block(block) => {
                all.extend(
                    block
                        .layout
                        .pieces(&block.key, number)?
                        .into_iter()
                        .flatten(),
                );
            }
            Held::Image(padded) => all.extend(padded.levels.pieces(&padded.key, number)?),
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::block::Block;
    use crate::objects::buffer::testing::made;
    use crate::objects::buffer::{Buffer, Place};
    use heap::canary::{Key, Layout};

    fn scan(size: u64) -> Scan {
        let layout = Layout::around(size, 64, 128).unwrap();
        let block = Block::new(Memory::Buffer(1), layout, Key::of_byte(0xab));
        let buffer = Buffer::of(made(1, size, Place::Block(block)));
        Scan::new(Arc::new(buffer), None)
    }

    #[test]
    fn each_scan_s_pieces_name_its_memory() {
        let scans = [scan(100), scan(200)];
        let pieces = pieces(&scans).unwrap();
        for number in [0, 1] {
            let own = pieces.iter().filter(|piece| piece.argument == number);
            // One canary before and one after.
            assert_eq!(own.filter(|piece| piece.before == 0).count(), 2, "{number}");
        }
        let bare = Buffer::of(made(1, 8, Place::Bare("a test")));
        let nothing = Scan::new(Arc::new(bare), None);
        assert!(super::pieces(&[scan(100), nothing]).is_none());
    }

    #[test]
    fn an_answer_without_damage_shows_none() {
        let scan = scan(100);
        let intact = Answer::from_bytes(&[0; Answer::BYTES]).unwrap();
        let canaries: Vec<Vec<(Piece, Answer)>> = pieces(std::slice::from_ref(&scan))
            .unwrap()
            .into_iter()
            .map(|piece| vec![(piece, intact)])
            .collect();
        assert_eq!(canaries.len(), 2);
        assert!(damages(&scan, &canaries).is_empty());
    }
}
