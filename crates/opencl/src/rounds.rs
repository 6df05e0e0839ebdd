//! Looks by the device's checker: a launch's canaries in rounds, each one
//! kernel and one read of its answers. Those of images are brought into a
//! buffer before, and from there back, repaired.

use crate::blocks::Memory;
use crate::check::{Damaged, Held, Look};
use crate::device::{Answers, Checker, MOST, Plan};
use crate::jobs::{Commands, bring_back};
use crate::sys::*;
use heap::canary::Side;
use heap::pieces::{Answer, Piece};
use std::ops::Range;
use std::sync::Arc;

/// See the module's header.
pub struct Round {
    checker: Arc<Checker>,
    /// Numbers of the looks.
    looks: Range<usize>,
    plan: Arc<Plan>,
    answers: Answers,
}

impl Round {
    /// Enqueues all looks; `rounds` gets what was enqueued, also if it fails.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn enqueue_all(
        checker: &Arc<Checker>,
        looks: &[Look],
        commands: &mut Commands,
        rounds: &mut Vec<Round>,
    ) -> Result<(), cl_int> {
        for (number, looks) in looks.chunks(MOST).enumerate() {
            let names: Vec<u64> = looks.iter().map(Look::name).collect();
            let plan = checker
                .plan(&names, || pieces(looks))
                .ok_or(CL_OUT_OF_RESOURCES)?;
            let answers = checker.answers(&plan).ok_or(CL_OUT_OF_RESOURCES)?;
            let start = number * MOST;
            rounds.push(Round {
                checker: checker.clone(),
                looks: start..start + looks.len(),
                plan,
                answers,
            });
            if let Some(round) = rounds.last_mut() {
                round.enqueue(looks, commands)?;
            }
        }
        Ok(())
    }

    fn enqueue(&mut self, looks: &[Look], commands: &mut Commands) -> Result<(), cl_int> {
        let queue = commands.queue;
        let mut memories = Vec::new();
        let mut gathered = Vec::new();
        for look in looks {
            memories.push(match look.held() {
                Some(Held::Block(block)) => block.memory,
                Some(Held::Image(larger)) => {
                    let strips = larger.strips().ok_or(CL_OUT_OF_RESOURCES)?;
                    gathered.push(commands.add(&[], false, |after, events| {
                        larger.gather(queue, strips, after, events)
                    })?);
                    Memory::Buffer(strips as usize)
                }
                None => return Err(CL_INVALID_MEM_OBJECT),
            });
            bring_back(look, commands)?;
        }
        let (checker, plan) = (&self.checker, &self.plan);
        let verified = commands.add(&gathered, false, |after, events| {
            events
                .add(|event| checker.verify(queue, &memories, (plan, &self.answers), after, event))
        })?;
        for look in looks {
            if let Some(Held::Image(larger)) = look.held()
                && let Some(strips) = larger.strips()
            {
                commands.add(&[verified], true, |after, events| {
                    larger.scatter(queue, strips, after, events)
                })?;
            }
        }
        let answers = &mut self.answers;
        commands.add(&[verified], true, |after, events| {
            events.add(|event| answers.read(queue, plan, after, event))
        })?;
        Ok(())
    }

    /// What the answers, once read, show of each look.
    pub fn damages(&self, looks: &[Look], found: &dyn Fn(&Look, Vec<Damaged>)) {
        if !self.answers.any(&self.plan) {
            return;
        }
        let all = self.answers.all(&self.plan);
        let Some(looks) = looks.get(self.looks.clone()) else {
            return;
        };
        for (number, look) in (0u32..).zip(looks) {
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
            found(look, damages(look, &canaries));
        }
    }

    /// Nothing writes the answers any more.
    pub fn end(self) {
        self.checker.take_back(self.answers);
    }
}

fn damages(look: &Look, canaries: &[Vec<(Piece, Answer)>]) -> Vec<Damaged> {
    match look.held() {
        Some(Held::Block(block)) => [Side::Before, Side::After]
            .into_iter()
            .zip(canaries)
            .filter_map(|(side, answers)| block.layout.damage(side, answers))
            .map(Damaged::Bytes)
            .collect(),
        Some(Held::Image(larger)) => {
            let damages = larger.levels.damage(canaries);
            damages.into_iter().map(Damaged::Pixels).collect()
        }
        None => Vec::new(),
    }
}

/// The pieces of some looks, each an argument; `None`: one is too large.
fn pieces(looks: &[Look]) -> Option<Vec<Piece>> {
    let mut all = Vec::new();
    for (number, look) in (0u32..).zip(looks) {
        match look.held()? {
            Held::Block(block) => {
                all.extend(
                    block
                        .layout
                        .pieces(&block.key, number)?
                        .into_iter()
                        .flatten(),
                );
            }
            Held::Image(larger) => all.extend(larger.levels.pieces(&larger.key, number)?),
        }
    }
    Some(all)
}
