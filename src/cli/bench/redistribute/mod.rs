//! `malleus bench redistribute`: one cell of paper R's evaluation. Every sample is one redistribution between
//! real processes: where there are more targets than sources, the new ones are spawned for it.

mod sample;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use self::sample::{Measured, Sample, Sides, Value, Work};
use super::options::{at_least_one, one_size};
use super::samples::nearest_rank;
use super::{Failure, Header, Result, check_json, is_oversubscribed, write_json};
use crate::cli::record::{Mpich, Target, bytes as human, cores};
use crate::experiment::Run;
use crate::job::Spawn;
use crate::mpi::process::cannot_spawn;
use crate::mpi::{Communicator, Environment};
use crate::partition::Partition;
use crate::redistribute::Variant;
use crate::redistribute::plan::{kept_elements, moved_elements};

/// Bytes of an element.
const ELEMENT: usize = 8;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// How many sources; as many ranks are started.
    #[arg(long, value_name = "NS", default_value_t = 1, value_parser = at_least_one)]
    from: usize,
    /// How many targets.
    #[arg(long, value_name = "NT", default_value_t = 2, value_parser = at_least_one)]
    to: usize,
    /// Bytes of all arrays together.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = one_size)]
    bytes: usize,
    /// Arrays, of equal length.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    arrays: usize,
    /// Which variants: col, col-t, col-nb, col-wt, rma1, rma1-t, rma1-wt, rma2, rma2-t, rma2-wt,
    /// rma1-t-unlock, rma2-t-unlock, rma1-paced, rma2-paced, p2p, p2p-nb, p2p-wt.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "col,col-t,col-nb,col-wt,rma1,rma1-t,rma1-wt,rma2,rma2-t,rma2-wt"
    )]
    variants: Vec<Variant>,
    /// Measured samples of each variant, in turns.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
    reps: usize,
    /// Samples before them, which are not counted.
    #[arg(short = 'x', long, value_name = "N", default_value_t = 1)]
    warm_up: usize,
    /// Who calls MPI while the sources compute: thread (a thread of each source, every 200 µs), none, or mpich (its own
    /// thread, which spins: MPIR_CVAR_ASYNC_PROGRESS=1).
    #[arg(long, value_name = "WHO", value_enum, default_value_t = Progress::Thread)]
    progress: Progress,
    /// merge (processes stay where they can) or baseline (all targets are started, all sources leave).
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Management::Merge)]
    management: Management,
    /// How long an iteration of the application computes with NS ranks, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    iteration: u64,
    /// Write the result as JSON to this file; - for standard output, instead of the table.
    #[arg(long, value_name = "FILE", value_parser = |name: &str| Ok::<_, String>(Target::from(name)))]
    json: Option<Target>,
    /// Append each sample to this file when it is done, as a line of JSON for each group of ranks.
    #[arg(long, value_name = "FILE", hide = true)]
    samples: Option<PathBuf>,
    /// The number of the first sample.
    #[arg(long, value_name = "N", hide = true, default_value_t = 0)]
    first: usize,
}

/// Who calls MPI while the sources compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(in crate::cli) enum Progress {
    Thread,
    None,
    Mpich,
}

/// How processes are managed in a resize.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(in crate::cli) enum Management {
    Merge,
    Baseline,
}

impl Progress {
    pub(in crate::cli) const fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::None => "none",
            Self::Mpich => "mpich",
        }
    }
}

impl Management {
    pub(in crate::cli) const fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Baseline => "baseline",
        }
    }

    /// What rows of an experiment call a variant.
    pub(in crate::cli) fn name_of(self, variant: Variant) -> String {
        match self {
            Self::Merge => variant.to_string(),
            Self::Baseline => format!("{variant} baseline"),
        }
    }
}

/// MPICH's variable for its progress thread.
const ASYNC_PROGRESS: &str = "MPIR_CVAR_ASYNC_PROGRESS";

impl Arguments {
    /// On how many ranks it starts.
    pub(in crate::cli) fn ranks(&self) -> usize {
        self.from
    }

    /// What the ranks have to find in their environment.
    pub(in crate::cli) fn facts(&self) -> Option<(&'static str, String)> {
        (self.progress == Progress::Mpich).then(|| (ASYNC_PROGRESS, "1".to_owned()))
    }

    fn sides(&self) -> Result<Sides> {
        let elements = (self.bytes / ELEMENT / self.arrays) as u64;
        let to = Partition::block(elements, self.to);
        let (to, targets) = match self.management {
            Management::Merge => (to, 0..self.to),
            Management::Baseline => {
                // The sources come first, and get nothing.
                let mut cuts = vec![0; self.from];
                cuts.extend((0..self.to).map(|rank| to.range(rank).start));
                cuts.push(elements);
                let to = Partition::cuts(cuts);
                let to = to.map_err(|error| Failure::Fatal(error.to_string()))?;
                (to, self.from..self.from + self.to)
            }
        };
        Ok(Sides {
            from: Partition::block(elements, self.from),
            to,
            sources: 0..self.from,
            targets,
        })
    }

    /// How many processes are started for a sample.
    fn newcomers(&self) -> usize {
        match self.management {
            Management::Merge => self.to.saturating_sub(self.from),
            Management::Baseline => self.to,
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    from: usize,
    to: usize,
    bytes: u64,
    arrays: usize,
    variant: String,
    progress: Progress,
    management: Management,
    reps: usize,
    median_s: f64,
    min_s: f64,
    p95_s: f64,
    expose_s: f64,
    move_s: f64,
    release_s: f64,
    spawn_s: f64,
    merge_s: f64,
    resume_s: f64,
    /// Time of an iteration meanwhile, over its time alone; `None` where the variant is blocking.
    omega: Option<f64>,
    /// From the request to the end, over what its iterations take alone.
    omega_total: Option<f64>,
    iterations_during: Option<f64>,
    /// The part of what is beyond ω = 1 that the sources' processors spent on moving data.
    copy_share: Option<f64>,
    /// Time of an iteration alone, with NS ranks and with NT.
    iteration_s: Option<f64>,
    iteration_after_s: Option<f64>,
    peak_rss_bytes: u64,
    moved_bytes: u64,
    kept_bytes: u64,
    verified: bool,
    oversubscribed: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: Header,
    iteration_ms: u64,
    rows: Vec<Row>,
}

pub(super) fn run(environment: &Environment, arguments: &Arguments) -> Result<()> {
    let sample = Sample {
        sides: arguments.sides()?,
        arrays: arguments.arrays,
        progress: arguments.progress,
        iterates: arguments.samples.is_some(),
    };
    if let Some(parent) = environment.parent()? {
        // One that was spawned takes part in one sample.
        let merging = Instant::now();
        let union = parent.join(false)?;
        let merge = merging.elapsed();
        environment.set_heavy_yield(is_oversubscribed(&union)?)?;
        let (variant, rounds) = told(&union, None, &arguments.variants)?;
        let work = Work::new(rounds, arguments.from, arguments.bytes);
        let stages = [Duration::ZERO, Duration::ZERO, merge];
        sample.run(&union, None, variant, work, stages)?;
        union.barrier()?;
        union.disconnect()?;
        return Ok(());
    }
    let world = environment.world();
    if world.size() != arguments.from {
        return Err(Failure::Common(format!(
            "--from {}: there are {} ranks",
            arguments.from,
            world.size()
        )));
    }
    let newcomers = arguments.newcomers();
    if newcomers > 0
        && let Some(reason) = cannot_spawn()
    {
        return Err(Failure::Common(reason.to_owned()));
    }
    if arguments.progress == Progress::Mpich && std::env::var_os(ASYNC_PROGRESS).is_none() {
        return Err(Failure::Common(format!(
            "--progress mpich: start the ranks with {ASYNC_PROGRESS}=1, or with malleus -n"
        )));
    }
    check_json(&world, arguments.json.as_ref())?;
    let iteration = Duration::from_millis(arguments.iteration);
    let work = Work::calibrate(&world, iteration, arguments.bytes)?;
    let mut samples: Vec<Vec<Measured>> = vec![Vec::new(); arguments.variants.len()];
    let mut oversubscribed = is_oversubscribed(&world)?;
    for round in 0..arguments.warm_up + arguments.reps {
        for place in 0..arguments.variants.len() {
            // Each is the first one in turn.
            let index = (place + round) % arguments.variants.len();
            let variant = arguments.variants[index];
            let measured = if newcomers > 0 {
                let spawning = Instant::now();
                let children = Spawn::default().start(&world, newcomers)?;
                let spawn = spawning.elapsed();
                let merging = Instant::now();
                let union = children.join(true)?;
                let merge = merging.elapsed();
                oversubscribed |= is_oversubscribed(&union)?;
                environment.set_heavy_yield(oversubscribed)?;
                let deciding = Instant::now();
                told(&union, Some((index, work.rounds())), &arguments.variants)?;
                let stages = [deciding.elapsed(), spawn, merge];
                let measured = sample.run(&union, Some(&world), variant, work, stages)?;
                union.barrier()?;
                union.disconnect()?;
                measured
            } else {
                let stages = [Duration::ZERO; 3];
                sample.run(&world, Some(&world), variant, work, stages)?
            };
            if round >= arguments.warm_up {
                if let (0, Some(file)) = (world.rank(), &arguments.samples) {
                    let rep = arguments.first + round - arguments.warm_up;
                    let runs = runs(arguments, variant, rep, oversubscribed, &measured)?;
                    append(file, &runs).map_err(|error| {
                        Failure::Fatal(format!("--samples {}: {error}", file.display()))
                    })?;
                }
                samples[index].push(measured);
            }
        }
    }
    if world.rank() != 0 {
        return Ok(());
    }
    let rows = arguments.variants.iter().zip(&samples);
    let rows =
        rows.map(|(&variant, samples)| Row::new(arguments, variant, samples, oversubscribed));
    let report = Report {
        rows: rows.collect::<Result<_>>()?,
        header: Header {
            benchmark: "redistribute",
            mpich: Mpich::of(environment),
            ranks: arguments.from + newcomers,
            cores: cores(),
            oversubscribed,
            iterations: arguments.reps,
            warm_up: arguments.warm_up,
        },
        iteration_ms: arguments.iteration,
    };
    if write_json(arguments.json.as_ref(), &report)? {
        report.print();
    }
    match report.rows.iter().find(|row| !row.verified) {
        // Rank 0 alone knows, after all communication.
        Some(row) => Err(Failure::Fatal(format!(
            "{}: the data that arrived is not what was sent",
            row.variant
        ))),
        None => Ok(()),
    }
}

/// The variant of a sample and the application's arithmetic, which rank 0 knows. Collective.
fn told(
    union: &Communicator,
    known: Option<(usize, u64)>,
    variants: &[Variant],
) -> Result<(Variant, u64)> {
    let (index, rounds) = known.unwrap_or((0, 0));
    let mut message = [index as u64, rounds];
    union.broadcast(&mut message, 0)?;
    let variant = usize::try_from(message[0]).ok();
    let variant = variant.and_then(|index| variants.get(index).copied());
    let variant =
        variant.ok_or_else(|| Failure::Fatal("the processes have other variants".to_owned()))?;
    Ok((variant, message[1]))
}

/// Bytes that go from rank to rank, and that stay.
fn moved_and_kept(arguments: &Arguments) -> Result<(u64, u64)> {
    let Sides { from, to, .. } = arguments.sides()?;
    let bytes = |elements: u64| elements * ELEMENT as u64 * arguments.arrays as u64;
    let told = |error: crate::redistribute::plan::Error| Failure::Fatal(error.to_string());
    Ok((
        bytes(moved_elements(&from, &to).map_err(told)?),
        bytes(kept_elements(&from, &to).map_err(told)?),
    ))
}

/// A sample as the rows of an experiment, that of all ranks last.
fn runs(
    arguments: &Arguments,
    variant: Variant,
    rep: usize,
    oversubscribed: bool,
    measured: &Measured,
) -> Result<Vec<Run>> {
    let (moved_bytes, kept_bytes) = moved_and_kept(arguments)?;
    let background = variant.is_background();
    let name = arguments.management.name_of(variant);
    let mut runs: Vec<Run> = measured
        .groups()
        .map(|(group, of)| {
            let only = |value: f64| background.then_some(value);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let peak_rss_bytes = of(Value::PeakBytes) as u64;
            Run {
                from: arguments.from,
                to: arguments.to,
                bytes: moved_bytes + kept_bytes,
                arrays: arguments.arrays,
                variant: name.clone(),
                rep,
                group,
                decide_s: of(Value::Decide),
                spawn_s: of(Value::Spawn),
                merge_s: of(Value::Merge),
                expose_s: of(Value::Expose),
                transfer_s: of(Value::Transfer),
                release_s: of(Value::Release),
                resume_s: of(Value::Resume),
                redistribute_s: of(Value::Redistribute),
                total_s: of(Value::Total),
                iteration_before_s: of(Value::Before),
                iteration_during_s: only(of(Value::During)),
                iterations_during: only(of(Value::Iterations)),
                iteration_after_s: of(Value::After),
                omega: only(measured.omega()),
                omega_total: only(measured.omega_total()),
                copy_share: only(of(Value::CopyShare)),
                peak_rss_bytes,
                moved_bytes,
                kept_bytes,
                verified: measured.is_verified(),
                oversubscribed,
                progress_thread: arguments.progress != Progress::None,
                error: String::new(),
            }
        })
        .collect();
    runs.rotate_left(1);
    Ok(runs)
}

fn append(file: &std::path::Path, runs: &[Run]) -> std::io::Result<()> {
    let mut text = String::new();
    for run in runs {
        text += &serde_json::to_string(run)?;
        text.push('\n');
    }
    let mut file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(file)?;
    file.write_all(text.as_bytes())
}

impl Row {
    fn new(
        arguments: &Arguments,
        variant: Variant,
        samples: &[Measured],
        oversubscribed: bool,
    ) -> Result<Self> {
        let (moved_bytes, kept_bytes) = moved_and_kept(arguments)?;
        let quantiles = |of: &dyn Fn(&Measured) -> f64| Quantiles::of(samples.iter().map(of));
        let median = |value: Value| quantiles(&|sample| sample.get(value)).at(50.0);
        let only = |value: f64| variant.is_background().then_some(value);
        let redistribute = quantiles(&|sample| sample.get(Value::Redistribute));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let peak_rss_bytes = quantiles(&|sample| sample.get(Value::PeakBytes)).at(100.0) as u64;
        Ok(Self {
            from: arguments.from,
            to: arguments.to,
            bytes: moved_bytes + kept_bytes,
            arrays: arguments.arrays,
            variant: variant.to_string(),
            progress: arguments.progress,
            management: arguments.management,
            reps: samples.len(),
            median_s: redistribute.at(50.0),
            min_s: redistribute.at(0.0),
            p95_s: redistribute.at(95.0),
            expose_s: median(Value::Expose),
            move_s: median(Value::Transfer),
            release_s: median(Value::Release),
            spawn_s: median(Value::Spawn),
            merge_s: median(Value::Merge),
            resume_s: median(Value::Resume),
            omega: only(quantiles(&Measured::omega).at(50.0)),
            omega_total: only(quantiles(&Measured::omega_total).at(50.0)),
            iterations_during: only(median(Value::Iterations)),
            copy_share: only(median(Value::CopyShare)),
            iteration_s: only(median(Value::Before)),
            iteration_after_s: only(median(Value::After)),
            peak_rss_bytes,
            moved_bytes,
            kept_bytes,
            verified: samples.iter().all(Measured::is_verified),
            oversubscribed,
        })
    }
}

/// Measured values in order.
struct Quantiles(Vec<f64>);

impl Quantiles {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    fn at(&self, percent: f64) -> f64 {
        nearest_rank(&self.0, percent).copied().unwrap_or(f64::NAN)
    }
}

impl Report {
    fn print(&self) {
        self.header.print(("ms", "samples of each variant"));
        let Some(first) = self.rows.first() else {
            return;
        };
        println!(
            "# {} to {} ranks, {} in {} array(s): {} moved, {} kept; iterations of {} ms; progress: {:?}",
            first.from,
            first.to,
            human(first.bytes),
            first.arrays,
            human(first.moved_bytes),
            human(first.kept_bytes),
            self.iteration_ms,
            first.progress
        );
        println!("# medians over samples of the maximum over ranks");
        println!(
            "{:<14} {:>9} {:>9} {:>9} {:>8} {:>9} {:>8} {:>7} {:>7} {:>7} {:>11} {:>10} {:>9}",
            "# variant",
            "total",
            "min",
            "p95",
            "expose",
            "move",
            "release",
            "omega",
            "copying",
            "total/T",
            "iterations",
            "peak",
            "verified"
        );
        let cell = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        for row in &self.rows {
            println!(
                "{:<14} {:>9.2} {:>9.2} {:>9.2} {:>8.3} {:>9.2} {:>8.3} {:>7} {:>7} {:>7} {:>11} {:>10} {:>9}",
                row.variant,
                row.median_s * 1e3,
                row.min_s * 1e3,
                row.p95_s * 1e3,
                row.expose_s * 1e3,
                row.move_s * 1e3,
                row.release_s * 1e3,
                cell(row.omega),
                cell(row.copy_share),
                cell(row.omega_total),
                cell(row.iterations_during),
                human(row.peak_rss_bytes),
                if row.verified { "yes" } else { "NO" }
            );
        }
    }
}
