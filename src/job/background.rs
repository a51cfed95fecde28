//! Stage 3 while the application goes on: constant arrays move between two checkpoints, everything else at the switch.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::agreement::Agreement;
use super::array::{Distribution, Moment, in_slot};
use super::error::Error;
use super::resize::Pending;
use super::transfer::{Message, Move, announce, expected_checksums};
use super::{Job, Registration, Result, map};
use crate::memory::{Arena, Block};
use crate::mpi::{Communicator, Operation, ProgressThread, elements_of};
use crate::partition::Partition;
use crate::redistribute::{self, Background, Times, Variant};

/// Tag of the message that calls those who wait for the switch.
const SWITCH_TAG: i32 = 1;
/// How long they sleep between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// What the root tells those that come, before anything moves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Opening {
    pub(super) from: usize,
    pub(super) to: usize,
    variant: Variant,
    verify: bool,
    arrays: Vec<Move>,
}

/// What has come in the background, by the names of the arrays.
#[derive(Debug, Default)]
pub(super) struct Landed {
    /// Where the blocks lie.
    pub(super) arena: Option<Arena>,
    pub(super) arrays: HashMap<String, Arrived>,
    /// What the stages of the redistribution took, and from its start until its end was agreed upon.
    pub(super) times: Times,
    pub(super) time: Duration,
    /// Iterations in that time.
    pub(super) iterations: u64,
}

/// A block with the checksums that the targets' blocks must have, where they are verified.
#[derive(Debug)]
pub(super) struct Arrived {
    /// Until it has its place.
    pub(super) block: Option<Block>,
    pub(super) expected: Option<Vec<u64>>,
}

/// A redistribution that goes on, as one rank sees it.
#[derive(Debug)]
struct Flying {
    background: Background,
    opening: Opening,
    expected: Vec<Option<Vec<u64>>>,
    arena: Arena,
    begun: Instant,
}

impl Flying {
    /// Allocates the new blocks and starts to move. Collective over sources and targets, who all fail or none.
    fn start(union: &Communicator, opening: Opening, sources: Vec<Arc<Block>>) -> Result<Self> {
        let rank = union.rank();
        let allocated = allocate(&opening, rank);
        let problem = allocated.as_ref().err().map(ToString::to_string);
        if let Some((rank, problem)) = union.agree(problem)? {
            return Err(Error::Abandoned {
                from: opening.from,
                to: opening.to,
                reason: format!("rank {rank}: {problem}"),
            });
        }
        let (arena, targets) = allocated?;
        let mut expected = Vec::with_capacity(targets.len());
        let mut moves = Vec::with_capacity(targets.len());
        for ((array, source), target) in opening.arrays.iter().zip(sources).zip(targets) {
            expected.push(if opening.verify {
                Some(expected_checksums(union, array, source.as_bytes())?)
            } else {
                None
            });
            moves.push(redistribute::Move {
                from: array.before.partition.clone(),
                to: array.to.clone(),
                element_size: array.before.type_map.extent(),
                source,
                target,
            });
        }
        let begun = Instant::now();
        let background = Background::start(union, opening.variant, moves)?;
        Ok(Self {
            background,
            opening,
            expected,
            arena,
            begun,
        })
    }

    /// Waits for the end. Collective over sources and targets.
    fn land(self, time: Duration, iterations: u64) -> Result<Landed> {
        let (blocks, times) = self.background.finish()?;
        let arrays = self.opening.arrays.into_iter().zip(blocks);
        let arrays = arrays.zip(self.expected).map(|((moved, block), expected)| {
            let block = Some(block);
            (moved.before.name, Arrived { block, expected })
        });
        Ok(Landed {
            arena: Some(self.arena),
            arrays: arrays.collect(),
            times,
            time,
            iterations,
        })
    }
}

fn allocate(opening: &Opening, rank: usize) -> Result<(Arena, Vec<Block>)> {
    let arena = Arena::new("malleus")?;
    let blocks = opening.arrays.iter();
    let blocks = blocks.map(|moved| map(&arena, &moved.after(), rank));
    let blocks = blocks.collect::<Result<_>>()?;
    Ok((arena, blocks))
}

/// A rank that is only a target: gets its blocks, and sleeps until the sources come to the switch. Collective.
/// `None` where the resize is abandoned.
pub(super) fn receive(union: &Communicator, opening: Opening) -> Result<Option<Landed>> {
    let arena = Arena::new("malleus")?;
    let nothing = || Ok(Arc::new(arena.map(arena.append(0)?, 0..0)?));
    let sources = opening.arrays.iter().map(|_| nothing());
    let sources = sources.collect::<Result<_>>()?;
    let mut flying = match Flying::start(union, opening, sources) {
        Ok(flying) => flying,
        Err(error) if error.leaves_job_whole() => return Ok(None),
        Err(error) => return Err(error),
    };
    while !flying.background.test()? {
        std::thread::sleep(PAUSE);
    }
    while union.iprobe(0, SWITCH_TAG)?.is_none() {
        std::thread::sleep(PAUSE);
    }
    union.receive::<u8>(&mut [], 0, SWITCH_TAG)?;
    flying.land(Duration::ZERO, 0).map(Some)
}

/// A resize whose data moves while the application goes on.
#[derive(Debug)]
pub(super) struct InProgress {
    flying: Flying,
    agreement: Agreement,
    /// Until this rank's part is complete.
    progress: Option<ProgressThread>,
    /// This rank's part is complete.
    complete: bool,
    iterations: u64,
    /// The communicator of the redistribution, where no process has joined.
    own: Option<Communicator>,
}

impl InProgress {
    /// At a checkpoint: whether the job switches here.
    pub(super) fn test(&mut self, iteration: u64) -> Result<bool> {
        self.iterations += 1;
        if !self.complete && self.flying.background.test()? {
            self.complete = true;
            self.stop_progress()?;
            self.agreement.complete();
        }
        self.agreement.switches_at(iteration)
    }

    fn stop_progress(&mut self) -> Result<()> {
        Ok(self.progress.take().map_or(Ok(()), ProgressThread::stop)?)
    }

    /// Ends it, complete or not. Collective over sources and targets.
    pub(super) fn land(mut self, union: &Communicator) -> Result<Landed> {
        let time = self.flying.begun.elapsed();
        let (from, to) = (self.flying.opening.from, self.flying.opening.to);
        if union.rank() == 0 {
            for target in from..to {
                union.send::<u8>(&[], target, SWITCH_TAG)?;
            }
        }
        self.stop_progress()?;
        self.agreement.complete();
        let landed = self.flying.land(time, self.iterations)?;
        self.agreement.join()?;
        if let Some(own) = self.own {
            own.free()?;
        }
        Ok(landed)
    }
}

impl Job {
    /// The blocks of the arrays, in the order of the registry, that are constant and have their contents on every
    /// rank. Collective over the job.
    pub(super) fn published(&self) -> Result<Vec<Option<Arc<Block>>>> {
        let arrays = self.registry.iter().filter_map(Registration::array);
        let blocks: Vec<_> = arrays.map(|(_, slot)| in_slot(slot)).collect();
        let mut everywhere: Vec<u8> = blocks.iter().map(|block| block.is_some().into()).collect();
        self.communicator()
            .all_reduce(&mut everywhere, Operation::Minimum)?;
        let blocks = blocks.into_iter().zip(everywhere);
        Ok(blocks
            .map(|(block, everywhere)| block.filter(|_| everywhere == 1))
            .collect())
    }

    /// Where each array goes, in the order of the registry; `None` for one that lies behind offsets that are not
    /// known. Collective over the old members.
    pub(super) fn moves(
        &self,
        to: usize,
        published: &[Option<Arc<Block>>],
    ) -> Result<Vec<Option<Move>>> {
        let mut moves: Vec<Option<Move>> = Vec::new();
        for (before, _) in self.registry.iter().filter_map(Registration::array) {
            let to = match &before.distribution {
                Distribution::Block => Some(Partition::block(before.partition.len(), to)),
                Distribution::Cuts => Some(before.partition.recut(to)),
                Distribution::Behind { offsets } => {
                    let mut known = moves
                        .iter()
                        .zip(published)
                        .filter_map(|(moved, block)| Some((moved.as_ref()?, block.as_ref()?)));
                    match known.find(|(moved, _)| moved.before.name == *offsets) {
                        Some((moved, block)) => {
                            let len = before.partition.len();
                            Some(self.cuts_behind(moved, block.as_bytes(), len)?)
                        }
                        None => None,
                    }
                }
            };
            moves.push(to.map(|to| Move {
                before: before.clone(),
                to,
            }));
        }
        Ok(moves)
    }

    /// The new cut points of an array that lies behind another one: the offsets at the other's new cut points. Each
    /// is known where its element is. Collective over the old members.
    fn cuts_behind(&self, offsets: &Move, known: &[u8], len: u64) -> Result<Partition> {
        let known: &[u64] = elements_of(known).expect("offsets are u64");
        let range = offsets.before.partition.range(self.rank());
        let mut cuts = vec![0_u64; offsets.to.ranks() + 1];
        for (rank, cut) in cuts.iter_mut().enumerate() {
            let element = match rank {
                0 => 0,
                rank => offsets.to.range(rank - 1).end,
            };
            if range.contains(&element) {
                let index = usize::try_from(element - range.start).expect("an index into a block");
                *cut = known[index];
            } else if element == offsets.to.len() && self.rank() == 0 {
                *cut = len;
            }
        }
        self.communicator()
            .all_reduce(&mut cuts, Operation::Maximum)?;
        Ok(Partition::cuts(cuts)?)
    }

    /// Starts to move in the background what can; `None` where nothing can. Collective over the job.
    pub(super) fn take_off(&self, pending: &Pending) -> Result<Option<InProgress>> {
        if !self.variant.is_background() {
            return Ok(None);
        }
        let communicator = self.communicator();
        let differs = self.differs_from_root()?.then(String::new);
        if communicator.agree(differs)?.is_some() {
            // The switch says so.
            return Ok(None);
        }
        let published = self.published()?;
        let moves = self.moves(pending.to, &published)?;
        let (arrays, sources): (Vec<_>, Vec<_>) = moves
            .into_iter()
            .zip(published)
            .filter_map(|(moved, block)| Some((moved?, block?)))
            .filter(|(moved, _)| moved.before.moment == Moment::Background)
            .unzip();
        if arrays.is_empty() {
            return Ok(None);
        }
        let opening = Opening {
            from: self.size(),
            to: pending.to,
            variant: self.variant,
            verify: self.verify,
            arrays,
        };
        let own = match pending.union {
            Some(_) => None,
            // The application's own collective calls come in between.
            None => Some(communicator.duplicate()?),
        };
        if let Some(union) = &pending.union {
            announce(union, Some(&Message::Background(Box::new(opening.clone()))))?;
        }
        let union = own.as_ref().or(pending.union.as_ref());
        let union = union.expect("one of the two is there");
        let flying = match Flying::start(union, opening, sources) {
            Ok(flying) => flying,
            Err(error) => {
                if let Some(own) = own {
                    own.free()?;
                }
                return Err(error);
            }
        };
        let multiple = self.environment.multiple().filter(|_| self.progress);
        let progress = multiple.map(|multiple| {
            ProgressThread::start(&self.environment, &multiple, self.variant.effort())
        });
        Ok(Some(InProgress {
            flying,
            progress: progress.transpose()?,
            agreement: Agreement::start(communicator, self.iteration)?,
            complete: false,
            iterations: 0,
            own,
        }))
    }
}
