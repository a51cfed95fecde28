//! What several exchanges take with their setup: what the break-even model predicts.

use std::time::{Duration, Instant};

use super::{Counts, Exchange, Layouts, Result};
use crate::alltoallv::{Plan, Variant};
use crate::mpi::{Communicator, Operation};

/// How often each is measured: with few exchanges, the setup is most of it, and varies.
const SAMPLES: usize = 5;
const SAMPLES_OF_MANY: usize = 3;
const MANY: usize = 100;

/// So many exchanges with their setup.
pub(super) struct Several {
    pub(super) exchanges: usize,
    pub(super) median_s: f64,
    pub(super) samples: usize,
}

/// What was measured of all variants.
#[derive(Default)]
pub(super) struct Totals {
    /// Each variant with each number of exchanges.
    pub(super) several: Vec<(Variant, Several)>,
    /// The median of all setups of each variant, the longest of any rank.
    pub(super) setups: Vec<(Variant, f64)>,
}

/// All variants in turns. Collective.
///
/// The time is that of the setup and of the exchanges, one after the other, with a barrier before the first; what is sent is
/// written in between, while the clock stands. Freeing the plan is not part of it, as in the model.
pub(super) fn measure<K>(
    world: &Communicator,
    numbers: &[usize],
    variants: &[Variant],
    counts: &Counts,
    init: &impl Fn(&Communicator, Variant, Layouts<'_>) -> Result<Plan<u8, K>>,
) -> Result<Totals>
where
    Plan<u8, K>: Exchange,
{
    let [send, receive] = counts.layouts(world.rank());
    let mut totals = Totals::default();
    let mut setups = vec![Vec::new(); variants.len()];
    for &exchanges in numbers {
        let samples = if exchanges < MANY {
            SAMPLES
        } else {
            SAMPLES_OF_MANY
        };
        let mut times = vec![0.0; samples * variants.len()];
        for sample in 0..samples {
            for (at, &variant) in variants.iter().enumerate() {
                world.barrier()?;
                let begun = Instant::now();
                let mut plan = init(world, variant, (&send, &receive))?;
                let mut time: Duration = begun.elapsed();
                setups[at].push(time.as_secs_f64());
                plan.send_buffer().fill(1);
                world.barrier()?;
                let begun = Instant::now();
                for _ in 0..exchanges {
                    plan = plan.start()?.wait()?;
                }
                time += begun.elapsed();
                plan.end()?;
                times[at * samples + sample] = time.as_secs_f64();
            }
        }
        world.all_reduce(&mut times, Operation::Maximum)?;
        for (&variant, times) in variants.iter().zip(times.chunks_mut(samples)) {
            let several = Several {
                exchanges,
                median_s: median(times),
                samples,
            };
            totals.several.push((variant, several));
        }
    }
    for (&variant, setups) in variants.iter().zip(&mut setups) {
        if !setups.is_empty() {
            world.all_reduce(setups, Operation::Maximum)?;
            totals.setups.push((variant, median(setups)));
        }
    }
    Ok(totals)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
