//! `malleus bench redistribute`: one cell of paper R's evaluation. Every sample is one redistribution between
//! real processes: where there are more targets than sources, the new ones are spawned for it.

mod sample;

use std::time::Duration;

use serde::Serialize;

use self::sample::{Measured, Sample, Work};
use super::options::{at_least_one, one_size};
use super::samples::nearest_rank;
use super::{Failure, Header, Result, check_json, is_oversubscribed, write_json};
use crate::cli::record::{Mpich, Target, bytes as human, cores};
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
    /// rma1-t-unlock, rma2-t-unlock, p2p, p2p-nb, p2p-wt.
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
    /// How long an iteration of the application computes, in milliseconds, where data moves in the background.
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    iteration: u64,
    /// Write the result as JSON to this file; - for standard output, instead of the table.
    #[arg(long, value_name = "FILE", value_parser = |name: &str| Ok::<_, String>(Target::from(name)))]
    json: Option<Target>,
}

impl Arguments {
    /// On how many ranks it starts.
    pub(in crate::cli) fn ranks(&self) -> usize {
        self.from
    }

    fn partitions(&self) -> (Partition, Partition) {
        let elements = (self.bytes / ELEMENT / self.arrays) as u64;
        (
            Partition::block(elements, self.from),
            Partition::block(elements, self.to),
        )
    }
}

#[derive(Debug, Serialize)]
struct Row {
    from: usize,
    to: usize,
    bytes: u64,
    arrays: usize,
    variant: String,
    reps: usize,
    median_s: f64,
    min_s: f64,
    p95_s: f64,
    expose_s: f64,
    move_s: f64,
    release_s: f64,
    /// Time of an iteration meanwhile, over its time alone; `None` where the variant is blocking.
    omega: Option<f64>,
    /// From the request to the end, over what its iterations take alone.
    omega_total: Option<f64>,
    iterations_during: Option<f64>,
    /// Time of an iteration alone.
    iteration_s: Option<f64>,
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
    let sample = Sample::new(arguments.partitions(), arguments.arrays);
    if let Some(parent) = environment.parent()? {
        // One that was spawned takes part in one sample.
        let union = parent.join(false)?;
        environment.set_heavy_yield(is_oversubscribed(&union)?)?;
        let variant = told(&union, None, &arguments.variants)?;
        sample.run(&union, None, variant, None)?;
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
    if arguments.to > arguments.from
        && let Some(reason) = cannot_spawn()
    {
        return Err(Failure::Common(reason.to_owned()));
    }
    check_json(&world, arguments.json.as_ref())?;
    let work = Work::calibrate(&world, Duration::from_millis(arguments.iteration))?;
    let mut times: Vec<Vec<Measured>> = vec![Vec::new(); arguments.variants.len()];
    let mut oversubscribed = is_oversubscribed(&world)?;
    for round in 0..arguments.warm_up + arguments.reps {
        for place in 0..arguments.variants.len() {
            // Each is the first one in turn.
            let index = (place + round) % arguments.variants.len();
            let variant = arguments.variants[index];
            let measured = if arguments.to > arguments.from {
                let newcomers = arguments.to - arguments.from;
                let union = Spawn::default().start(&world, newcomers)?.join(true)?;
                oversubscribed |= is_oversubscribed(&union)?;
                environment.set_heavy_yield(oversubscribed)?;
                told(&union, Some(index), &arguments.variants)?;
                let measured = sample.run(&union, Some(&world), variant, Some(&work))?;
                union.barrier()?;
                union.disconnect()?;
                measured
            } else {
                sample.run(&world, Some(&world), variant, Some(&work))?
            };
            if round >= arguments.warm_up {
                times[index].push(measured);
            }
        }
    }
    if world.rank() != 0 {
        return Ok(());
    }
    let (from, to) = arguments.partitions();
    let bytes = |elements: u64| elements * ELEMENT as u64 * arguments.arrays as u64;
    let told = |error: crate::redistribute::plan::Error| Failure::Fatal(error.to_string());
    let moved = bytes(moved_elements(&from, &to).map_err(told)?);
    let kept = bytes(kept_elements(&from, &to).map_err(told)?);
    let rows = arguments.variants.iter().zip(times);
    let rows = rows.map(|(variant, measured)| {
        let of = |value: fn(&Measured) -> f64| Quantiles::of(measured.iter().map(value));
        let total = of(|measured| measured.total_s);
        let background = variant.is_background();
        let only = |quantiles: Quantiles| background.then(|| quantiles.at(50.0));
        Row {
            from: arguments.from,
            to: arguments.to,
            bytes: bytes(from.len()),
            arrays: arguments.arrays,
            variant: variant.to_string(),
            reps: measured.len(),
            median_s: total.at(50.0),
            min_s: total.at(0.0),
            p95_s: total.at(95.0),
            expose_s: of(|measured| measured.expose_s).at(50.0),
            move_s: of(|measured| measured.move_s).at(50.0),
            release_s: of(|measured| measured.release_s).at(50.0),
            omega: only(of(|measured| measured.during_s / measured.alone_s)),
            omega_total: only(of(|measured| {
                measured.total_s / (measured.iterations * measured.alone_s)
            })),
            iterations_during: only(of(|measured| measured.iterations)),
            iteration_s: only(of(|measured| measured.alone_s)),
            peak_rss_bytes: measured
                .iter()
                .map(|measured| measured.peak_bytes)
                .max()
                .unwrap_or(0),
            moved_bytes: moved,
            kept_bytes: kept,
            verified: measured.iter().all(|measured| measured.verified),
            oversubscribed,
        }
    });
    let report = Report {
        rows: rows.collect(),
        header: Header {
            benchmark: "redistribute",
            mpich: Mpich::of(environment),
            ranks: arguments.from.max(arguments.to),
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

/// The variant of a sample, which rank 0 knows. Collective.
fn told(union: &Communicator, index: Option<usize>, variants: &[Variant]) -> Result<Variant> {
    let mut message = [index.unwrap_or(0) as u64];
    union.broadcast(&mut message, 0)?;
    usize::try_from(message[0])
        .ok()
        .and_then(|index| variants.get(index).copied())
        .ok_or_else(|| Failure::Fatal("the processes have other variants".to_owned()))
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
            "# {} to {} ranks, {} in {} array(s): {} moved, {} kept; iterations of {} ms",
            first.from,
            first.to,
            human(first.bytes),
            first.arrays,
            human(first.moved_bytes),
            human(first.kept_bytes),
            self.iteration_ms
        );
        println!("# medians over samples of the maximum over ranks");
        println!(
            "{:<14} {:>9} {:>9} {:>9} {:>8} {:>9} {:>8} {:>7} {:>7} {:>11} {:>10} {:>9}",
            "# variant",
            "total",
            "min",
            "p95",
            "expose",
            "move",
            "release",
            "omega",
            "total/T",
            "iterations",
            "peak",
            "verified"
        );
        let cell = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        for row in &self.rows {
            println!(
                "{:<14} {:>9.2} {:>9.2} {:>9.2} {:>8.3} {:>9.2} {:>8.3} {:>7} {:>7} {:>11} {:>10} {:>9}",
                row.variant,
                row.median_s * 1e3,
                row.min_s * 1e3,
                row.p95_s * 1e3,
                row.expose_s * 1e3,
                row.move_s * 1e3,
                row.release_s * 1e3,
                cell(row.omega),
                cell(row.omega_total),
                cell(row.iterations_during),
                human(row.peak_rss_bytes),
                if row.verified { "yes" } else { "NO" }
            );
        }
    }
}
