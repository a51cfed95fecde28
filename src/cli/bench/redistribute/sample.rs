//! One redistribution, measured: its times, what it does to the application's iterations, its memory, its data.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::{Failure, Result};
use super::{ELEMENT, Progress};
use crate::experiment::Group;
use crate::memory::{Arena, Block};
use crate::mpi::{Communicator, Effort, Operation, ProgressThread, elements_of_mut};
use crate::partition::Partition;
use crate::redistribute::{self, Background, Move, Times, Transfer, Variant};

/// Iterations when nothing moves, whose median is their time alone.
const ALONE: usize = 5;
/// The part of the data that an iteration of the application gathers from everybody: that of the allgatherv in paper R's
/// CG (33,176,880 of 3,947,883,504 bytes).
const GATHERED: f64 = 33_176_880.0 / 3_947_883_504.0;

/// Values of a sample: seconds, and others. The longest, or most, of any rank of a group counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Decide,
    Spawn,
    Merge,
    Expose,
    Transfer,
    Release,
    Resume,
    Redistribute,
    Total,
    Before,
    During,
    Iterations,
    After,
    CopyShare,
    PeakBytes,
    /// Elements that are not what they should be.
    Wrong,
}

/// How many there are.
const VALUES: usize = Value::Wrong as usize + 1;
/// Those of a rank.
type Values = [f64; VALUES];

/// What a sample came to: the values of each group of ranks that exists.
#[derive(Clone, Debug)]
pub(super) struct Measured(Vec<(Group, Values)>);

impl Measured {
    pub(super) fn groups(&self) -> impl Iterator<Item = (Group, impl Fn(Value) -> f64)> {
        let groups = self.0.iter();
        groups.map(|(group, values)| (*group, |value: Value| values[value as usize]))
    }

    /// Of all ranks.
    pub(super) fn get(&self, value: Value) -> f64 {
        self.0[0].1[value as usize]
    }

    pub(super) fn is_verified(&self) -> bool {
        self.get(Value::Wrong) == 0.0
    }

    /// ω: an iteration meanwhile over one alone.
    pub(super) fn omega(&self) -> f64 {
        self.get(Value::During) / self.get(Value::Before)
    }

    /// The whole redistribution over what its iterations take alone.
    pub(super) fn omega_total(&self) -> f64 {
        self.get(Value::Redistribute) / (self.get(Value::Iterations) * self.get(Value::Before))
    }

    /// The longest times over the ranks of each group. Collective.
    fn collect(union: &Communicator, own: Group, values: Values) -> Result<Self> {
        const GROUPS: [Group; 4] = [
            Group::All,
            Group::Both,
            Group::SourceOnly,
            Group::TargetOnly,
        ];
        let mut all = [[f64::NEG_INFINITY; VALUES]; GROUPS.len()];
        for (group, place) in GROUPS.into_iter().zip(&mut all) {
            if group == Group::All || group == own {
                *place = values;
            }
        }
        union.all_reduce(all.as_flattened_mut(), Operation::Maximum)?;
        let groups = GROUPS.into_iter().zip(all);
        Ok(Self(
            groups.filter(|(_, values)| values[0].is_finite()).collect(),
        ))
    }
}

/// The application: paper R's CG, in one stage of arithmetic, two reductions of 8 bytes, and an allgatherv.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Terms that a rank adds where there are as many as sources.
    rounds: u64,
    sources: usize,
    gathered: usize,
}

impl Work {
    /// As much arithmetic as this machine does in that time. Collective: everybody gets rank 0's.
    pub(super) fn calibrate(
        communicator: &Communicator,
        time: Duration,
        bytes: usize,
    ) -> Result<Self> {
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
        Ok(Self::new(message[0], communicator.size(), bytes))
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    pub(super) fn new(rounds: u64, sources: usize, bytes: usize) -> Self {
        Self {
            rounds,
            sources,
            gathered: (bytes as f64 * GATHERED) as usize,
        }
    }

    pub(super) fn rounds(self) -> u64 {
        self.rounds
    }

    /// One iteration. Tells whether every rank says that it is done. Collective.
    fn iterate(
        self,
        communicator: &Communicator,
        buffers: &mut Buffers,
        done: bool,
    ) -> Result<bool> {
        // The same arithmetic in all, on however many ranks.
        compute(self.rounds * self.sources as u64 / communicator.size() as u64);
        let mut all = [u64::from(done)];
        communicator.all_reduce(&mut all, Operation::Sum)?;
        communicator.all_reduce(&mut [0.0], Operation::Sum)?;
        communicator.all_gather(&buffers.own, &mut buffers.all)?;
        Ok(all[0] == communicator.size() as u64)
    }

    fn buffers(self, communicator: &Communicator) -> Buffers {
        let each = self.gathered / communicator.size();
        Buffers {
            own: vec![1; each],
            all: vec![0; each * communicator.size()],
        }
    }

    /// The time of an iteration when nothing moves, and the processor time in it. Collective.
    fn alone(self, communicator: &Communicator, buffers: &mut Buffers) -> Result<(f64, f64)> {
        let mut times = [(0.0, 0.0); ALONE];
        for time in &mut times {
            let (begun, used) = (Instant::now(), processor_time());
            self.iterate(communicator, buffers, false)?;
            *time = (
                begun.elapsed().as_secs_f64(),
                (processor_time() - used).as_secs_f64(),
            );
        }
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(times[ALONE / 2])
    }
}

/// What an iteration gathers.
struct Buffers {
    own: Vec<u8>,
    all: Vec<u8>,
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

/// Processor time of this process, all threads.
#[allow(unsafe_code)]
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure lives, and the clock exists on Linux.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(code, 0, "the clock of this process exists");
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Who owns what before and after, over the ranks of sources and targets, and which these are.
#[derive(Clone, Debug)]
pub(super) struct Sides {
    pub(super) from: Partition,
    pub(super) to: Partition,
    pub(super) sources: Range<usize>,
    pub(super) targets: Range<usize>,
}

/// What moves, and between whom.
pub(super) struct Sample {
    pub(super) sides: Sides,
    pub(super) arrays: usize,
    pub(super) progress: Progress,
    /// Whether blocking variants are to tell the time of the application's iterations as well.
    pub(super) iterates: bool,
}

impl Sample {
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

    /// Moves everything once. Collective over sources and targets; `sources` is the application's communicator on a
    /// source. `stages` are the times until here: decide, spawn, merge.
    pub(super) fn run(
        &self,
        union: &Communicator,
        sources: Option<&Communicator>,
        variant: Variant,
        work: Work,
        stages: [Duration; 3],
    ) -> Result<Measured> {
        let rank = union.rank();
        let mut old = Vec::with_capacity(self.arrays);
        let mut new = Vec::with_capacity(self.arrays);
        for array in 0..self.arrays {
            let mut block = self.block(&self.sides.from, rank)?;
            let first = self.sides.from.range(rank).start;
            let elements = elements(&mut block)?;
            for (index, element) in (first..).zip(elements) {
                *element = value(array, index);
            }
            old.push(block);
            new.push(self.block(&self.sides.to, rank)?);
        }
        let mut values: Values = [0.0; VALUES];
        let mut set = |value: Value, number: f64| values[value as usize] = number;
        let mut application =
            sources.map(|communicator| (communicator, work.buffers(communicator)));
        let mut alone = (0.0, 0.0);
        let iterates = self.iterates || variant.is_background();
        if let Some((communicator, buffers)) = application.as_mut().filter(|_| iterates) {
            alone = work.alone(communicator, buffers)?;
        }
        reset_peak();
        union.barrier()?;
        let begun = Instant::now();
        let (blocks, times) = if variant.is_background() {
            let moves = old.into_iter().zip(new).map(|(source, target)| Move {
                from: self.sides.from.clone(),
                to: self.sides.to.clone(),
                element_size: ELEMENT,
                source: Arc::new(source),
                target,
            });
            let mut background = Background::start(union, variant, moves.collect())?;
            if let Some((communicator, buffers)) = &mut application {
                let mut progress = self.progress_thread(union, variant.effort())?;
                let (started, used) = (Instant::now(), processor_time());
                let (mut done, mut iterations) = (false, 0_u32);
                loop {
                    let all = work.iterate(communicator, buffers, done)?;
                    done = done || background.test()?;
                    if done && let Some(progress) = progress.take() {
                        progress.stop()?;
                    }
                    iterations += 1;
                    if all {
                        break;
                    }
                }
                let time = started.elapsed().as_secs_f64();
                let iterations = f64::from(iterations);
                set(Value::During, time / iterations);
                set(Value::Iterations, iterations);
                let more = time - iterations * alone.0;
                let used = (processor_time() - used).as_secs_f64() - iterations * alone.1;
                set(Value::CopyShare, (used / more).clamp(0.0, 1.0));
            }
            background.finish()?
        } else {
            self.blocking(union, variant, old, new)?
        };
        let redistributed = begun.elapsed();
        set(Value::PeakBytes, peak());
        let mut wrong = 0;
        for (array, mut block) in blocks.into_iter().enumerate() {
            let first = self.sides.to.range(rank).start;
            let found = (first..).zip(elements(&mut block)?);
            wrong += found
                .filter(|(index, found)| **found != value(array, *index))
                .count();
        }
        let resuming = Instant::now();
        let targets = union
            .group()?
            .include(&self.sides.targets.clone().collect::<Vec<_>>())?;
        let targets = self
            .sides
            .targets
            .contains(&rank)
            .then(|| union.create_group(&targets, 0));
        let resumed = resuming.elapsed();
        if let Some(targets) = targets.transpose()? {
            if iterates {
                let after = work.alone(&targets, &mut work.buffers(&targets))?;
                set(Value::After, after.0);
            }
            targets.free()?;
        }
        let [decide, spawn, merge] = stages;
        for (value, time) in [
            (Value::Decide, decide),
            (Value::Spawn, spawn),
            (Value::Merge, merge),
            (Value::Expose, times.expose),
            (Value::Transfer, times.transfer),
            (Value::Release, times.release),
            (Value::Resume, resumed),
            (Value::Redistribute, redistributed),
            (
                Value::Total,
                decide + spawn + merge + redistributed + resumed,
            ),
        ] {
            set(value, time.as_secs_f64());
        }
        set(Value::Before, alone.0);
        #[allow(clippy::cast_precision_loss)]
        set(Value::Wrong, wrong as f64);
        let own = match (
            self.sides.sources.contains(&rank),
            self.sides.targets.contains(&rank),
        ) {
            (true, true) => Group::Both,
            (true, false) => Group::SourceOnly,
            (false, _) => Group::TargetOnly,
        };
        Measured::collect(union, own, values)
    }

    fn progress_thread(
        &self,
        union: &Communicator,
        effort: Effort,
    ) -> Result<Option<ProgressThread>> {
        if self.progress != Progress::Thread {
            return Ok(None);
        }
        let environment = union.environment();
        let multiple = environment
            .multiple()
            .ok_or(redistribute::Error::ThreadLevel)?;
        Ok(Some(ProgressThread::start(
            &environment,
            &multiple,
            effort,
        )?))
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
                from: &self.sides.from,
                to: &self.sides.to,
                element_size: ELEMENT,
                source: source.as_bytes_mut(),
                target: target.as_bytes_mut(),
            };
            sum += redistribute::array(union, variant.method(), transfer)?;
        }
        Ok((new, sum))
    }
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
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| {
        let value = line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?;
        value.trim().parse::<u32>().ok()
    });
    f64::from(kib.unwrap_or(0)) * 1024.0
}
