//! `malleus bench alltoallv`: persistent exchanges of every variant, beside MPI's own.

use std::fmt;
use std::str::FromStr;
use std::time::Instant;

use serde::Serialize;

use super::options::{Sizes, at_least_one};
use super::samples::{Samples, Summary};
use super::{Failure, Header, Result, check_json, is_oversubscribed, write_json};
use crate::alltoallv::{Own, Plan, Variant};
use crate::cli::pattern;
use crate::cli::record::{Mpich, Target, bytes as human, cores, seconds};
use crate::mpi::collective::BlockLayout;
use crate::mpi::{Communicator, Environment, Operation};
use crate::workload::matrix::Problem;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Bytes to each peer, doubling from MIN to MAX.
    #[arg(
        short = 'm',
        long = "sizes",
        value_name = "MIN:MAX",
        default_value = "8:1MiB"
    )]
    sizes: Sizes,
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
    /// Write the result as JSON to this file; - for standard output, instead of the table.
    #[arg(long, value_name = "FILE", value_parser = |name: &str| Ok::<_, String>(Target::from(name)))]
    json: Option<Target>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Whose {
    Own,
    Caller,
}

/// Who sends how much.
#[derive(Clone, Debug, PartialEq)]
enum Pattern {
    Uniform,
    Random(f64),
    Hotspot,
    Matrix(Problem),
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once(':') {
            None if text == "uniform" => Ok(Self::Uniform),
            None if text == "hotspot" => Ok(Self::Hotspot),
            Some(("random", density)) => match density.parse() {
                Ok(density) if (0.0..=1.0).contains(&density) => Ok(Self::Random(density)),
                _ => Err("a density is a number between 0 and 1".to_owned()),
            },
            Some(("matrix", name)) => match name.parse() {
                Ok(problem) => Ok(Self::Matrix(problem)),
                Err(error) => Err(error.to_string()),
            },
            _ => Err("expected uniform, random:DENSITY, hotspot or matrix:FILE".to_owned()),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Random(density) => write!(f, "random:{density}"),
            Self::Hotspot => f.write_str("hotspot"),
            Self::Matrix(problem) => write!(f, "matrix:{problem}"),
        }
    }
}

/// Bytes from each rank to each other one.
struct Counts {
    bytes: Vec<usize>,
    ranks: usize,
}

impl Counts {
    fn of(&self, from: usize, to: usize) -> usize {
        self.bytes[from * self.ranks + to]
    }

    /// What a rank sends, and what it receives.
    fn layouts(&self, rank: usize) -> [BlockLayout; 2] {
        let all = 0..self.ranks;
        let sends = all.clone().map(|to| self.of(rank, to)).collect();
        let receives = all.map(|from| self.of(from, rank)).collect();
        [sends, receives].map(BlockLayout::packed)
    }

    /// The mean of those pairs that have some.
    fn mean(&self) -> usize {
        let some = self.bytes.iter().filter(|&&bytes| bytes > 0).count();
        self.bytes.iter().sum::<usize>() / some.max(1)
    }
}

impl Pattern {
    fn counts(&self, size: usize, ranks: usize) -> std::result::Result<Counts, String> {
        let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        let bytes = match self {
            Self::Uniform => vec![size; ranks * ranks],
            Self::Hotspot => pairs
                .map(|(from, to)| match to {
                    0 => 10 * size,
                    _ if to == (from + 1) % ranks => size,
                    _ => 0,
                })
                .collect(),
            Self::Random(density) => pairs
                .map(|(from, to)| random(from * ranks + to, *density, size))
                .collect(),
            Self::Matrix(problem) => {
                let matrix = problem.load().map_err(|error| error.to_string())?;
                let messages = pattern::messages(&matrix, ranks);
                let mut bytes = vec![0; ranks * ranks];
                for message in messages.map_err(|error| error.to_string())? {
                    bytes[message.from * ranks + message.to] = message.elements * size_of::<f64>();
                }
                bytes
            }
        };
        Ok(Counts { bytes, ranks })
    }
}

/// Up to twice the size, for so many of the pairs; the same for a pair whoever asks.
fn random(pair: usize, density: f64, size: usize) -> usize {
    let mut word = pair as u64;
    let mut draw = || {
        // A step of SplitMix64.
        word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        #[allow(clippy::cast_precision_loss)]
        let unit = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        unit
    };
    if draw() >= density {
        return 0;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss
    )]
    let bytes = (2.0 * draw() * size as f64) as usize;
    bytes.max(1)
}

#[derive(Debug, Serialize)]
struct Row {
    variant: Variant,
    pattern: String,
    buffers: Whose,
    bytes_per_peer: usize,
    ranks: usize,
    nodes: usize,
    iterations: usize,
    median_s: f64,
    min_s: f64,
    p99_s: f64,
    init_s: f64,
    /// How often this is faster than `MPI_Alltoallv` in the same run, at the median.
    speed_up: Option<f64>,
    /// After so many exchanges it has made up for its setup, against `MPI_Alltoallv`; `None` where it never does.
    break_even_iterations: Option<f64>,
    validated: bool,
    oversubscribed: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: Header,
    rows: Vec<Row>,
}

pub(super) fn run(environment: &Environment, arguments: &Arguments) -> Result<()> {
    let world = environment.world();
    check_json(&world, arguments.json.as_ref())?;
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
    let mut rows = Vec::new();
    let sizes: Vec<usize> = match arguments.pattern {
        Pattern::Matrix(_) => vec![size_of::<f64>()],
        _ => arguments.sizes.iter().collect(),
    };
    for size in sizes {
        let counts = arguments.pattern.counts(size, world.size());
        // Each rank reads the matrix, and any of them may fail.
        let problem = counts.as_ref().err().cloned();
        if let Some((_, problem)) = world.agree(problem)? {
            return Err(Failure::Common(format!("--pattern: {problem}")));
        }
        let counts = counts.map_err(Failure::Fatal)?;
        let measured = match arguments.buffers {
            Whose::Own => measure(&world, arguments, &variants, &counts, own)?,
            Whose::Caller => measure(&world, arguments, &variants, &counts, caller)?,
        };
        let size = match arguments.pattern {
            Pattern::Matrix(_) => counts.mean(),
            _ => size,
        };
        let standard = measured.iter().find(|one| one.variant == Variant::Standard);
        let standard = standard.map(|one| one.times.percentile_s(50.0));
        for one in &measured {
            let median_s = one.times.percentile_s(50.0);
            let gain = standard.map(|standard| standard - median_s);
            rows.push(Row {
                variant: one.variant,
                pattern: arguments.pattern.to_string(),
                buffers: arguments.buffers,
                bytes_per_peer: size,
                ranks: world.size(),
                nodes: usize::try_from(nodes[0]).unwrap_or(0),
                iterations: arguments.iterations,
                median_s,
                min_s: one.times.percentile_s(0.0),
                p99_s: one.times.percentile_s(99.0),
                init_s: one.init_s,
                speed_up: standard.map(|standard| standard / median_s),
                break_even_iterations: gain
                    .filter(|gain| *gain > 0.0)
                    .map(|gain| (one.init_s / gain).ceil()),
                validated: one.validated,
                oversubscribed,
            });
        }
    }
    if world.rank() != 0 {
        return Ok(());
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
    times: Summary,
    init_s: f64,
    validated: bool,
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
        plan.map_or(Ok(()), Exchange::end)?;
        let mut right = [u64::from(validated)];
        world.all_reduce(&mut right, Operation::Minimum)?;
        measured.push(Measured {
            variant,
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
                "# pattern {}, {:?} buffers, {} node(s); init outside of the times, a barrier before each",
                row.pattern, row.buffers, row.nodes
            );
        }
        println!(
            "{:>10}  {:<20}{:>11}{:>11}{:>11}{:>11}{:>9}{:>12}{:>7}",
            "bytes", "variant", "median", "min", "p99", "init", "× std", "break-even", "valid"
        );
        for row in &self.rows {
            let number = |value: Option<f64>, digits: usize| {
                value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
            };
            println!(
                "{:>10}  {:<20}{:>11}{:>11}{:>11}{:>11}{:>9}{:>12}{:>7}",
                row.bytes_per_peer,
                row.variant.name(),
                seconds(row.median_s),
                seconds(row.min_s),
                seconds(row.p99_s),
                seconds(row.init_s),
                number(row.speed_up, 2),
                number(row.break_even_iterations, 0),
                if row.validated { "yes" } else { "NO" }
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read() {
        for text in ["uniform", "hotspot", "random:0.25", "matrix:poisson2d:3x4"] {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
        }
        for text in [
            "random",
            "random:2",
            "random:x",
            "uniform:1",
            "",
            "matrix:poisson2d:3",
        ] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn counts_of_a_matrix_are_its_halo() {
        // Twelve unknowns in a row of three by four: a row of the grid on each side of a cut.
        let pattern: Pattern = "matrix:poisson2d:3x4".parse().unwrap();
        let counts = pattern.counts(8, 2).unwrap();
        assert_eq!(counts.bytes, [0, 24, 24, 0]);
        assert_eq!(counts.mean(), 24);
        let [send, receive] = counts.layouts(1);
        assert_eq!(
            (send.counts(), receive.counts()),
            (&[24, 0][..], &[24, 0][..])
        );
    }

    #[test]
    fn a_random_pattern_is_as_dense_as_it_says() {
        let counts: Vec<usize> = (0..10_000).map(|pair| random(pair, 0.3, 1000)).collect();
        let some = counts.iter().filter(|&&count| count > 0).count();
        assert!((2_800..3_200).contains(&some), "{some}");
        assert!(counts.iter().all(|&count| count <= 2000));
        let mean = counts.iter().sum::<usize>() / some;
        assert!((950..1050).contains(&mean), "{mean}");
    }
}
