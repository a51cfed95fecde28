//! `malleus bench`: microbenchmarks in the manner of OSU's.

mod figure;
mod latency;
mod options;
mod samples;
mod window;

use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;

use self::options::Output;
use super::launch;
use super::record::{Mpich, Target, cores};
use crate::mpi::{Communicator, Environment, Operation};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// What a window costs: creating it, attaching memory, freeing it, in each flavour, beside the same in C.
    Window(window::Arguments),
    /// What one-sided operations cost: put, get, flush, lock_all, fence and others, and whether they need
    /// the exposed rank.
    Latency(latency::Arguments),
}

pub(super) fn run(environment: &Environment, arguments: &Arguments) -> ExitCode {
    let result = match &arguments.benchmark {
        Benchmark::Window(arguments) => window::run(environment, arguments),
        Benchmark::Latency(arguments) => latency::run(environment, arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Common(message)) => launch::fail(&message, 1),
        Err(Failure::Fatal(message)) => environment.abort(&format!("error: {message}"), 1),
    }
}

/// How a benchmark ends early.
#[derive(Debug)]
enum Failure {
    /// Every rank has it, so MPI can be finalized.
    Common(String),
    /// Only this rank may have it: the job is ended by force.
    Fatal(String),
}

impl From<crate::mpi::Error> for Failure {
    fn from(error: crate::mpi::Error) -> Self {
        Self::Fatal(error.to_string())
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
    fn print(&self) {
        let mpich = &self.mpich;
        println!(
            "# malleus bench {}: µs, {} iterations after {}",
            self.benchmark, self.iterations, self.warm_up
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
    let problem = if communicator.rank() == 0 {
        output.check().err()
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
