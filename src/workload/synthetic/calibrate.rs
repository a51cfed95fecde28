//! How long an operation takes here, so that a stage lasts what it says.

use std::time::Instant;

use super::Error;
use super::config::StageKind;
use super::exchange::Started;
use super::stage::Work;
use crate::mpi::Communicator;

/// What a batch of operations takes at least, so that the clock does not matter.
const BATCH_S: f64 = 8e-3;
/// Batches, unless operations are so long that fewer fit into the budget.
const BATCHES: (usize, usize) = (3, 25);
const BUDGET_S: f64 = 0.25;

/// The time of one operation in seconds, as rank 0 sees it while every rank does the same, as it will in the stage:
/// cores share memory and caches. A batch lasts until all ranks are through: the slowest makes the time of a stage,
/// and a root that only sends is through before. The median over batches, so that a few that were disturbed do not
/// count. Collective; the same on every rank.
///
/// A start is measured with its wait.
pub(super) fn operation(
    kind: StageKind,
    work: &mut Work,
    communicator: &Communicator,
    started: &mut Started,
) -> Result<f64, Error> {
    let mut batch = |count: u64| -> Result<f64, Error> {
        communicator.barrier()?;
        let begun = Instant::now();
        for index in 0..count {
            work.operate(communicator, started, index)?;
        }
        if let StageKind::StartPointToPoint { identifier } = kind {
            started.wait(identifier, None)?;
        }
        communicator.barrier()?;
        let mut time = [begun.elapsed().as_secs_f64()];
        communicator.broadcast(&mut time, 0)?;
        Ok(time[0])
    };
    let mut count = 1;
    // The first one touches memory and opens connections.
    batch(count)?;
    let mut time_s = batch(count)?;
    while time_s < BATCH_S {
        count *= 2;
        time_s = batch(count)?;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let batches = ((BUDGET_S / time_s) as usize).clamp(BATCHES.0, BATCHES.1);
    let mut times = vec![time_s];
    while times.len() < batches {
        times.push(batch(count)?);
    }
    Ok(super::median(&times).unwrap_or(time_s) / count as f64)
}

/// How often an operation fits into a time: ⌈time ÷ time of an operation⌉.
pub(super) fn repetitions(time_s: f64, operation_s: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    {
        (time_s / operation_s).ceil() as u64
    }
}
