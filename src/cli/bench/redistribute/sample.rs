//! One redistribution, measured: its times, what it does to the application's iterations, its memory, its data.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::{Failure, Result};
use super::ELEMENT;
use crate::memory::{Arena, Block};
use crate::mpi::{Communicator, Operation, elements_of_mut};
use crate::partition::Partition;
use crate::redistribute::{self, Background, Move, Times, Transfer, Variant};

/// Iterations before a redistribution in the background, whose median is their time alone.
const ALONE: usize = 5;

/// What a sample came to: the longest time of any rank, and so on.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) total_s: f64,
    pub(super) expose_s: f64,
    pub(super) move_s: f64,
    pub(super) release_s: f64,
    /// Time of an iteration alone, and its mean meanwhile.
    pub(super) alone_s: f64,
    pub(super) during_s: f64,
    pub(super) iterations: f64,
    pub(super) peak_bytes: u64,
    pub(super) verified: bool,
}

/// The application's iteration: so much arithmetic, and a reduction of 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    rounds: u64,
}

impl Work {
    /// As much as this machine does in that time. Collective: everybody gets rank 0's.
    pub(super) fn calibrate(communicator: &Communicator, time: Duration) -> Result<Self> {
        let mut rounds = 1_u64 << 16;
        let mut best = f64::MAX;
        for _ in 0..10 {
            let begun = Instant::now();
            compute(rounds);
            #[allow(clippy::cast_precision_loss)]
            let each = begun.elapsed().as_secs_f64() / rounds as f64;
            best = best.min(each);
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        {
            rounds = (time.as_secs_f64() / best) as u64;
        }
        let mut message = [rounds];
        communicator.broadcast(&mut message, 0)?;
        Ok(Self { rounds: message[0] })
    }

    /// One iteration. Tells whether every rank says that it is done. Collective.
    fn iterate(self, communicator: &Communicator, done: bool) -> Result<bool> {
        compute(self.rounds);
        let mut all = [u64::from(done)];
        communicator.all_reduce(&mut all, Operation::Sum)?;
        Ok(all[0] == communicator.size() as u64)
    }
}

/// The series of π, so many terms of it.
fn compute(rounds: u64) -> f64 {
    let mut sum = 0.0;
    for term in 0..rounds {
        #[allow(clippy::cast_precision_loss)]
        let x = 2.0 * black_box(term) as f64 + 1.0;
        sum += 1.0 / (x * (x + 2.0));
    }
    black_box(sum)
}

/// What moves.
pub(super) struct Sample {
    from: Partition,
    to: Partition,
    arrays: usize,
}

impl Sample {
    pub(super) fn new((from, to): (Partition, Partition), arrays: usize) -> Self {
        Self { from, to, arrays }
    }

    fn block(&self, partition: &Partition, rank: usize) -> Result<Block> {
        let told = |error: crate::memory::Error| Failure::Fatal(error.to_string());
        let arena = Arena::new("malleus-bench").map_err(told)?;
        let base = arena
            .append(partition.len() * ELEMENT as u64)
            .map_err(told)?;
        let range = partition.range(rank);
        let size = ELEMENT as u64;
        arena
            .map(base, range.start * size..range.end * size)
            .map_err(told)
    }

    /// Moves everything once. Collective over sources and targets; `sources` is the application's communicator on
    /// a source, and `work` what it does.
    pub(super) fn run(
        &self,
        union: &Communicator,
        sources: Option<&Communicator>,
        variant: Variant,
        work: Option<&Work>,
    ) -> Result<Measured> {
        let rank = union.rank();
        let mut old = Vec::with_capacity(self.arrays);
        let mut new = Vec::with_capacity(self.arrays);
        for array in 0..self.arrays {
            let mut block = self.block(&self.from, rank)?;
            let first = self.from.range(rank).start;
            let elements = elements(&mut block)?;
            for (index, element) in (first..).zip(elements) {
                *element = value(array, index);
            }
            old.push(block);
            new.push(self.block(&self.to, rank)?);
        }
        let is_source = rank < self.from.ranks();
        let application = sources.zip(work).filter(|_| is_source);
        let mut alone_s = 0.0;
        if variant.is_background()
            && let Some((communicator, work)) = application
        {
            alone_s = alone(communicator, *work)?;
        }
        reset_peak();
        union.barrier()?;
        let begun = Instant::now();
        let mut during = (0_u32, Duration::ZERO);
        let (blocks, times) = if variant.is_background() {
            let moves = old.into_iter().zip(new).map(|(source, target)| Move {
                from: self.from.clone(),
                to: self.to.clone(),
                element_size: ELEMENT,
                source: Arc::new(source),
                target,
            });
            let mut background = Background::start(union, variant, moves.collect())?;
            if let Some((communicator, work)) = application {
                let started = Instant::now();
                let mut done = false;
                loop {
                    let all = work.iterate(communicator, done)?;
                    done = done || background.test()?;
                    during = (during.0 + 1, started.elapsed());
                    if all {
                        break;
                    }
                }
            }
            background.finish()?
        } else {
            self.blocking(union, variant, old, new)?
        };
        let total_s = begun.elapsed().as_secs_f64();
        let peak = peak();
        let mut wrong = 0;
        for (array, mut block) in blocks.into_iter().enumerate() {
            let first = self.to.range(rank).start;
            let found = (first..).zip(elements(&mut block)?);
            wrong += found
                .filter(|(index, found)| **found != value(array, *index))
                .count();
        }
        let (iterations, spent) = during;
        let mean = spent.as_secs_f64() / f64::from(iterations.max(1));
        let mut longest = [
            total_s,
            times.expose.as_secs_f64(),
            times.transfer.as_secs_f64(),
            times.release.as_secs_f64(),
            alone_s,
            mean,
            f64::from(iterations),
        ];
        union.all_reduce(&mut longest, Operation::Maximum)?;
        let mut most = [peak, wrong as u64];
        union.all_reduce(&mut most, Operation::Maximum)?;
        let [
            total_s,
            expose_s,
            move_s,
            release_s,
            alone_s,
            during_s,
            iterations,
        ] = longest;
        Ok(Measured {
            total_s,
            expose_s,
            move_s,
            release_s,
            alone_s,
            during_s,
            iterations,
            peak_bytes: most[0],
            verified: most[1] == 0,
        })
    }

    fn blocking(
        &self,
        union: &Communicator,
        variant: Variant,
        old: Vec<Block>,
        mut new: Vec<Block>,
    ) -> Result<(Vec<Block>, Times)> {
        let mut sum = Times::default();
        for (mut source, target) in old.into_iter().zip(&mut new) {
            let transfer = Transfer {
                from: &self.from,
                to: &self.to,
                element_size: ELEMENT,
                source: source.as_bytes_mut(),
                target: target.as_bytes_mut(),
            };
            sum += redistribute::array(union, variant.method(), transfer)?;
        }
        Ok((new, sum))
    }
}

/// The time of an iteration when nothing moves.
fn alone(communicator: &Communicator, work: Work) -> Result<f64> {
    let mut times = [0.0; ALONE];
    for time in &mut times {
        let begun = Instant::now();
        work.iterate(communicator, false)?;
        *time = begun.elapsed().as_secs_f64();
    }
    times.sort_by(f64::total_cmp);
    Ok(times[ALONE / 2])
}

/// What an element is, whoever has it.
fn value(array: usize, index: u64) -> u64 {
    (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((array as u64) << 56)
}

fn elements(block: &mut Block) -> Result<&mut [u64]> {
    elements_of_mut(block.as_bytes_mut())
        .ok_or_else(|| Failure::Fatal("a block is misaligned".to_owned()))
}

/// Forgets the peak of this process's memory, where the system allows it.
fn reset_peak() {
    // Where it does not, the peak is that of the whole run.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The peak of this process's memory in bytes; 0 where the system does not tell.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| {
        let value = line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?;
        value.trim().parse::<u64>().ok()
    });
    kib.unwrap_or(0) * 1024
}
