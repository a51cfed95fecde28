//! `malleus bench`: microbenchmarks in the manner of OSU's.

mod alltoallv;
mod figure;
mod latency;
pub(super) mod options;
pub(super) mod redistribute;
mod samples;
mod window;

use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;

use self::options::Output;
use super::failure::Failure;
use super::record::{Mpich, Target, cores};
use crate::mpi::{Communicator, Environment, Operation};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// What a persistent Alltoallv over one-sided communication costs, beside MPI's own: time, setup, break-even.
    Alltoallv(alltoallv::Arguments),
    /// What a window costs: creating it, attaching memory, freeing it, in each flavour, beside the same in C.
    Window(window::Arguments),
    /// What one-sided operations cost: put, get, flush, lock_all, fence and others, and whether they need
    /// the exposed rank.
    Latency(latency::Arguments),
    /// What a redistribution costs, blocking and in the background: one cell of paper R's evaluation.
    Redistribute(redistribute::Arguments),
}

impl Arguments {
    /// On how many ranks it starts unless it is told.
    pub(super) fn ranks(&self) -> usize {
        match &self.benchmark {
            // One rank reads from the other.
            Benchmark::Alltoallv(_) | Benchmark::Window(_) | Benchmark::Latency(_) => 2,
            Benchmark::Redistribute(arguments) => arguments.ranks(),
        }
    }
}

impl Arguments {
    /// What the ranks have to find in their environment.
    pub(super) fn facts(&self) -> Option<(&'static str, String)> {
        match &self.benchmark {
            Benchmark::Redistribute(arguments) => arguments.facts(),
            Benchmark::Alltoallv(_) | Benchmark::Window(_) | Benchmark::Latency(_) => None,
        }
    }
}

pub(super) fn run(environment: &Environment, arguments: &Arguments) -> ExitCode {
    let result = match &arguments.benchmark {
        Benchmark::Alltoallv(arguments) => alltoallv::run(environment, arguments),
        Benchmark::Window(arguments) => window::run(environment, arguments),
        Benchmark::Latency(arguments) => latency::run(environment, arguments),
        Benchmark::Redistribute(arguments) => redistribute::run(environment, arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.end(environment),
    }
}

type Result<T> = std::result::Result<T, Failure>;

/// What every result says about itself.
#[derive(Debug, Serialize)]
struct Header {
    benchmark: &'static str,
    mpich: Mpich,
    ranks: usize,
    cores: usize,
    /// Whether a node had more ranks than cores at any time.
    oversubscribed: bool,
    iterations: usize,
    warm_up: usize,
}

impl Header {
    /// `what`: the unit of times, and what there are so many of.
    fn print(&self, what: (&str, &str)) {
        let mpich = &self.mpich;
        println!(
            "# malleus bench {}: {}, {} {} after {}",
            self.benchmark, what.0, self.iterations, what.1, self.warm_up
        );
        println!(
            "# MPICH {} ({}), netmod {}, provider {}, {}, {} ranks, {} cores{}",
            mpich.version,
            mpich.device,
            mpich.netmod,
            mpich.provider,
            mpich.thread_level,
            self.ranks,
            self.cores,
            if self.oversubscribed {
                ", oversubscribed"
            } else {
                ""
            }
        );
    }
}

/// Finds out before the work whether its results can be written. Collective.
fn check_outputs(communicator: &Communicator, output: &Output) -> Result<()> {
    check_at_root(communicator, || output.check())
}

/// The same for the JSON result alone.
fn check_json(communicator: &Communicator, target: Option<&Target>) -> Result<()> {
    check_at_root(communicator, || target.map_or(Ok(()), Target::check))
}

fn check_at_root(
    communicator: &Communicator,
    check: impl FnOnce() -> std::result::Result<(), String>,
) -> Result<()> {
    let problem = if communicator.rank() == 0 {
        check().err()
    } else {
        None
    };
    match communicator.agree(problem)? {
        Some((_, problem)) => Err(Failure::Common(problem)),
        None => Ok(()),
    }
}

/// Whether a node has more of these ranks than cores. Collective.
fn is_oversubscribed(communicator: &Communicator) -> Result<bool> {
    let node = communicator.split_shared()?;
    let mut crowded = [u8::from(node.size() > cores())];
    node.free()?;
    communicator.all_reduce(&mut crowded, Operation::Maximum)?;
    Ok(crowded[0] > 0)
}

/// Writes the JSON result, and says whether the table may go to standard output as well.
fn write_json(target: Option<&Target>, result: &impl Serialize) -> Result<bool> {
    match target {
        None => Ok(true),
        Some(target) => {
            target.write(result).map_err(Failure::Fatal)?;
            Ok(!matches!(target, Target::StandardOutput))
        }
    }
}
