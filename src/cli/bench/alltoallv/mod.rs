//! `malleus bench alltoallv`: persistent exchanges of every variant, beside MPI's own.

mod pattern;
mod totals;

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use super::options::{PeerSizes, at_least_one};
use super::samples::{Samples, Summary};
use super::{Failure, Header, Result, check_at_root, is_oversubscribed, write_json};
use crate::alltoallv::{Own, Plan, Variant};
use crate::cli::record::{Mpich, Target, bytes as human, check_folder, cores, seconds};
use crate::experiment::exchange::{Timing as Row, Total};
use crate::latency::Recorder;
use crate::mpi::collective::BlockLayout;
use crate::mpi::{Communicator, Environment, Operation};
use pattern::{Counts, Pattern};
use totals::Totals;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    each: PeerSizes,
    /// Measured exchanges of each variant, in turns.
    #[arg(short, long, value_name = "N", default_value_t = 200, value_parser = at_least_one)]
    iterations: usize,
    /// Exchanges before them, which are not counted.
    #[arg(short = 'x', long, value_name = "N", default_value_t = 20)]
    warm_up: usize,
    /// Which variants, instead of all.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    variants: Vec<Variant>,
    /// Who sends how much: uniform (the size to every rank), random:DENSITY (so much of the pairs have data, of up to twice
    /// the size), hotspot (everybody to rank 0 ten times the size, and the size to the next rank), matrix:FILE (the halo of
    /// its product with a vector of f64, rows in equal blocks; the sizes do not matter then).
    #[arg(long, value_name = "PATTERN", default_value = "uniform")]
    pattern: Pattern,
    /// Whose buffers: own (the plan's, in window memory where the variant has some), or caller (which a window exposes, or
    /// which are copied into).
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t = Whose::Own)]
    buffers: Whose,
    /// Measure, after that, what so many exchanges take with their setup, for each number of them.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = at_least_one)]
    break_even: Vec<usize>,
    /// Write the result as JSON to this file; - for standard output, instead of the table.
    #[arg(long, value_name = "FILE", value_parser = |name: &str| Ok::<_, String>(Target::from(name)))]
    json: Option<Target>,
    /// Write a latency histogram for each variant and size into this folder: .hgrm files, and all as an interval log.
    #[arg(long, value_name = "DIR")]
    hgrm: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Whose {
    Own,
    Caller,
}

impl Whose {
    const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Caller => "caller",
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: Header,
    rows: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    totals: Vec<Total>,
}

pub(super) fn run(environment: &Environment, arguments: &Arguments) -> Result<()> {
    let world = environment.world();
    check_at_root(&world, || {
        let json = arguments.json.as_ref().map_or(Ok(()), Target::check);
        let hgrm = arguments.hgrm.as_deref();
        json.and(hgrm.map_or(Ok(()), |folder| check_folder("--hgrm", folder)))
    })?;
    let mut recorder = Recorder::new();
    let oversubscribed = is_oversubscribed(&world)?;
    let node = world.split_shared()?;
    let mut nodes = [u64::from(node.rank() == 0)];
    node.free()?;
    world.all_reduce(&mut nodes, Operation::Sum)?;
    let variants = if arguments.variants.is_empty() {
        Variant::ALL.to_vec()
    } else {
        arguments.variants.clone()
    };
    let (mut rows, mut totals) = (Vec::new(), Vec::new());
    let sizes: Vec<usize> = match arguments.pattern {
        Pattern::Matrix(_) => vec![size_of::<f64>()],
        _ => arguments.each.sizes.iter().collect(),
    };
    for size in sizes {
        let counts = arguments.pattern.counts(size, world.size());
        // Each rank reads the matrix, and any of them may fail.
        let problem = counts.as_ref().err().cloned();
        if let Some((_, problem)) = world.agree(problem)? {
            return Err(Failure::Common(format!("--pattern: {problem}")));
        }
        let counts = counts.map_err(Failure::Fatal)?;
        let (measured, several) = match arguments.buffers {
            Whose::Own => measure_all(&world, arguments, &variants, &counts, own)?,
            Whose::Caller => measure_all(&world, arguments, &variants, &counts, caller)?,
        };
        let size = match arguments.pattern {
            Pattern::Matrix(_) => counts.mean(),
            _ => size,
        };
        let standard = measured.iter().find(|one| one.variant == Variant::Standard);
        let standard = standard.map(|one| one.times.percentile_s(50.0));
        for one in &measured {
            let name = format!("alltoallv.{}", one.variant);
            one.times.record(&mut recorder, &name, size);
            let median_s = one.times.percentile_s(50.0);
            let gain = standard.map(|standard| standard - median_s);
            let at = |percent| one.times.percentile_s(percent);
            rows.push(Row {
                variant: one.variant.to_string(),
                chosen: one.chosen.to_string(),
                pattern: arguments.pattern.to_string(),
                buffers: arguments.buffers.name().to_owned(),
                bytes_per_peer: size,
                ranks: world.size(),
                nodes: usize::try_from(nodes[0]).unwrap_or(0),
                iterations: arguments.iterations,
                median_s,
                q1_s: at(25.0),
                q3_s: at(75.0),
                min_s: at(0.0),
                p99_s: at(99.0),
                mean_s: one.over_ranks.mean,
                rank_min_s: one.over_ranks.least,
                rank_max_s: one.over_ranks.greatest,
                init_s: one.init_s,
                speed_up: standard.map(|standard| standard / median_s),
                break_even_iterations: gain
                    .filter(|gain| *gain > 0.0)
                    .map(|gain| (one.init_s / gain).ceil()),
                validated: one.validated,
                oversubscribed,
                error: String::new(),
            });
        }
        totals.extend(several.several.into_iter().map(|(variant, total)| Total {
            variant: variant.to_string(),
            pattern: arguments.pattern.to_string(),
            buffers: arguments.buffers.name().to_owned(),
            bytes_per_peer: size,
            ranks: world.size(),
            exchanges: total.exchanges,
            total_s: total.median_s,
            samples: total.samples,
        }));
    }
    if world.rank() != 0 {
        return Ok(());
    }
    if let Some(folder) = &arguments.hgrm {
        recorder.end();
        let written = recorder.write_files(folder);
        written.map_err(|error| Failure::Fatal(format!("--hgrm {}: {error}", folder.display())))?;
    }
    let report = Report {
        header: Header {
            benchmark: "alltoallv",
            mpich: Mpich::of(environment),
            ranks: world.size(),
            cores: cores(),
            oversubscribed,
            iterations: arguments.iterations,
            warm_up: arguments.warm_up,
        },
        rows,
        totals,
    };
    if write_json(arguments.json.as_ref(), &report)? {
        report.print();
    }
    match report.rows.iter().find(|row| !row.validated) {
        None => Ok(()),
        Some(row) => Err(Failure::Fatal(format!(
            "{} delivered wrong data at {} per peer",
            row.variant,
            human(row.bytes_per_peer as u64)
        ))),
    }
}

struct Measured {
    variant: Variant,
    chosen: Variant,
    times: Summary,
    over_ranks: OverRanks,
    init_s: f64,
    validated: bool,
}

/// Of the mean time of each rank.
struct OverRanks {
    mean: f64,
    least: f64,
    greatest: f64,
}

impl OverRanks {
    /// Collective.
    fn of(world: &Communicator, mean_s: f64) -> Result<Self> {
        let [mut sum, mut least, mut greatest] = [[mean_s]; 3];
        world.all_reduce(&mut sum, Operation::Sum)?;
        world.all_reduce(&mut least, Operation::Minimum)?;
        world.all_reduce(&mut greatest, Operation::Maximum)?;
        Ok(Self {
            mean: sum[0] / world.size() as f64,
            least: least[0],
            greatest: greatest[0],
        })
    }
}

type Layouts<'a> = (&'a BlockLayout, &'a BlockLayout);

fn own(world: &Communicator, variant: Variant, layouts: Layouts<'_>) -> Result<Plan<u8, Own<u8>>> {
    Ok(Plan::allocate(world, variant, layouts.0, layouts.1)?)
}

type Callers = (Vec<u8>, Vec<u8>);

fn caller(
    world: &Communicator,
    variant: Variant,
    layouts: Layouts<'_>,
) -> Result<Plan<u8, Callers>> {
    let buffer = |layout: &BlockLayout| vec![0; layout.total()];
    let (send, receive) = (buffer(layouts.0), buffer(layouts.1));
    Ok(Plan::over(
        world,
        variant,
        (send, layouts.0),
        (receive, layouts.1),
    )?)
}

/// What the two kinds of plans have in common.
trait Exchange: Sized {
    fn send_buffer(&mut self) -> &mut [u8];
    fn end(self) -> crate::alltoallv::Result<()>;
}

impl Exchange for Plan<u8, Own<u8>> {
    fn send_buffer(&mut self) -> &mut [u8] {
        self.send_mut()
    }

    fn end(self) -> crate::alltoallv::Result<()> {
        self.free()
    }
}

impl Exchange for Plan<u8, Callers> {
    fn send_buffer(&mut self) -> &mut [u8] {
        self.send_mut()
    }

    fn end(self) -> crate::alltoallv::Result<()> {
        self.free().map(drop)
    }
}

/// All variants with one size, and if asked for what several exchanges take with their setup. Collective.
fn measure_all<K>(
    world: &Communicator,
    arguments: &Arguments,
    variants: &[Variant],
    counts: &Counts,
    init: impl Fn(&Communicator, Variant, Layouts<'_>) -> Result<Plan<u8, K>>,
) -> Result<(Vec<Measured>, Totals)>
where
    Plan<u8, K>: Exchange,
{
    let mut measured = measure(world, arguments, variants, counts, &init)?;
    let totals = totals::measure(world, &arguments.break_even, variants, counts, &init)?;
    // One setup, the very first of a process at that, says little.
    for (one, (_, setup_s)) in measured.iter_mut().zip(&totals.setups) {
        one.init_s = *setup_s;
    }
    Ok((measured, totals))
}

/// All variants in turns, with one size. Collective.
fn measure<K>(
    world: &Communicator,
    arguments: &Arguments,
    variants: &[Variant],
    counts: &Counts,
    init: impl Fn(&Communicator, Variant, Layouts<'_>) -> Result<Plan<u8, K>>,
) -> Result<Vec<Measured>>
where
    Plan<u8, K>: Exchange,
{
    let rank = world.rank();
    let [send, receive] = counts.layouts(rank);
    let mut plans = Vec::new();
    let mut init_s = Vec::new();
    for &variant in variants {
        world.barrier()?;
        let begun = Instant::now();
        let plan = init(world, variant, (&send, &receive))?;
        let mut time = [begun.elapsed().as_secs_f64()];
        world.all_reduce(&mut time, Operation::Maximum)?;
        init_s.push(time[0]);
        plans.push(Some(plan));
    }
    let mut times = vec![Samples::default(); variants.len()];
    let mut validated = vec![true; variants.len()];
    let rounds = arguments.warm_up + arguments.iterations;
    for round in 0..rounds {
        // The data is looked at in the first exchange and in the last one.
        let checked = round == 0 || round + 1 == rounds;
        for ((place, times), validated) in plans.iter_mut().zip(&mut times).zip(&mut validated) {
            let mut plan = place.take().expect("it is put back below");
            if checked {
                for peer in 0..world.size() {
                    let value = value(rank, peer, round);
                    plan.send_buffer()[send.block(peer)].fill(value);
                }
                plan.receive_mut().fill(POISON);
            }
            world.barrier()?;
            let begun = Instant::now();
            let plan = plan.start()?.wait()?;
            times.push(begun.elapsed());
            if checked {
                *validated &= (0..world.size()).all(|peer| {
                    let expected = value(peer, rank, round);
                    plan.receive()[receive.block(peer)]
                        .iter()
                        .all(|&found| found == expected)
                });
            }
            *place = Some(plan);
        }
    }
    let mut measured = Vec::new();
    for (((plan, times), validated), (&variant, init_s)) in plans
        .into_iter()
        .zip(times)
        .zip(validated)
        .zip(variants.iter().zip(init_s))
    {
        let chosen = plan.as_ref().map_or(variant, Plan::chosen);
        plan.map_or(Ok(()), Exchange::end)?;
        let mut right = [u64::from(validated)];
        world.all_reduce(&mut right, Operation::Minimum)?;
        measured.push(Measured {
            variant,
            chosen,
            over_ranks: OverRanks::of(world, times.mean_s(arguments.warm_up))?,
            times: times.reduce(world, arguments.warm_up)?,
            init_s,
            validated: right[0] == 1,
        });
    }
    Ok(measured)
}

const POISON: u8 = 255;

/// A byte of what a rank sends to another one.
fn value(from: usize, to: usize, round: usize) -> u8 {
    u8::try_from((31 * from + 17 * to + round) % 251).expect("below 251")
}

impl Report {
    fn print(&self) {
        self.header
            .print(("start and wait, the longest of any rank", "exchanges"));
        if let Some(row) = self.rows.first() {
            println!(
                "# pattern {}, {} buffers, {} node(s); init outside of the times, a barrier before each",
                row.pattern, row.buffers, row.nodes
            );
        }
        println!(
            "{:>10}  {:<22}{:>11}{:>11}{:>11}{:>11}{:>9}{:>12}{:>7}",
            "bytes", "variant", "median", "min", "p99", "init", "× std", "break-even", "valid"
        );
        for row in &self.rows {
            let number = |value: Option<f64>, digits: usize| {
                value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
            };
            println!(
                "{:>10}  {:<22}{:>11}{:>11}{:>11}{:>11}{:>9}{:>12}{:>7}",
                row.bytes_per_peer,
                if row.chosen == row.variant {
                    row.variant.clone()
                } else {
                    format!("{} ({})", row.variant, row.chosen)
                },
                seconds(row.median_s),
                seconds(row.min_s),
                seconds(row.p99_s),
                seconds(row.init_s),
                number(row.speed_up, 2),
                number(row.break_even_iterations, 0),
                if row.validated { "yes" } else { "NO" }
            );
        }
        if self.totals.is_empty() {
            return;
        }
        println!("# N exchanges with their setup; in brackets: T_init + N · median");
        println!(
            "{:>10}  {:<22}{:>11}{:>13}{:>15}",
            "bytes", "variant", "N", "total", "model"
        );
        for total in &self.totals {
            let row = self.rows.iter().find(|row| {
                (&row.variant, row.bytes_per_peer) == (&total.variant, total.bytes_per_peer)
            });
            let model = row.map_or(f64::NAN, |row| {
                row.init_s + total.exchanges as f64 * row.median_s
            });
            println!(
                "{:>10}  {:<22}{:>11}{:>13}{:>15}",
                total.bytes_per_peer,
                total.variant,
                total.exchanges,
                seconds(total.total_s),
                format!("({})", seconds(model))
            );
        }
    }
}
