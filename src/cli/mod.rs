//! The `malleus` command.

mod bench;
mod environment;
mod experiment;
mod failure;
mod launch;
mod pattern;
mod progress_line;
mod record;
mod resizes;
mod solve;
mod synthetic;
mod tune;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::mpi::Environment;

/// Runs and measures MPI jobs that change their number of processes.
///
/// `mpiexec -n 2 malleus …` works, and `malleus -n 2 …` finds the mpiexec of the MPICH that it was built
/// with.
#[derive(Debug, Parser)]
#[command(name = "malleus", version)]
struct Arguments {
    /// Start on so many ranks, with the mpiexec of the MPICH that this program was built with.
    #[arg(short = 'n', value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Microbenchmarks of one-sided communication, in the manner of OSU's.
    Bench(bench::Arguments),
    /// The MPICH, device, provider and thread level found, and whether one-sided reads are passive here.
    Env(environment::Arguments),
    /// The evaluations of the papers: a folder with every run, a summary, and a report. Starts its own ranks.
    Experiment(experiment::Arguments),
    /// What a sparse matrix-vector product exchanges when rows are cut in equal blocks: elements and messages, without MPI.
    Pattern(pattern::Arguments),
    /// Conjugate gradients that resize while they solve: stage times, bytes moved, residual.
    Solve(solve::Arguments),
    /// A synthetic application out of a configuration file, in the manner of Proteo's SAM.
    Synthetic(synthetic::Arguments),
    /// Measures this machine, once for each number of ranks, and keeps the result for what chooses by it.
    Tune(tune::Arguments),
    /// Initializes and finalizes MPI: `env` reads what MPICH tells about itself then.
    #[command(hide = true)]
    Probe,
}

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            return launch::on_one_rank(
                || error.print(),
                u8::try_from(error.exit_code()).unwrap_or(2),
            );
        }
    };
    if launch::is_rank() {
        if arguments.ranks.is_some() && !launch::was_launched_here() {
            return launch::fail(
                "-n starts ranks, but this is one already: leave it out under mpiexec",
                2,
            );
        }
        if let Command::Experiment(_) = arguments.command {
            return launch::fail(
                "an experiment starts its own ranks: run it without mpiexec",
                2,
            );
        }
        if let Command::Pattern(pattern) = &arguments.command {
            return pattern::run(pattern);
        }
        if let Command::Synthetic(synthetic) = &arguments.command
            && let Some(code) = synthetic::check_only(synthetic)
        {
            return code;
        }
    } else {
        let default = match arguments.command {
            Command::Experiment(experiment) => {
                if arguments.ranks.is_some() {
                    return launch::fail("an experiment starts its own ranks: leave -n out", 2);
                }
                return experiment::run(&experiment);
            }
            Command::Pattern(pattern) => return pattern::run(&pattern),
            Command::Bench(ref bench) => u32::try_from(bench.ranks()).unwrap_or(u32::MAX),
            // One rank reads from the other.
            Command::Env(_) | Command::Tune(_) => 2,
            Command::Solve(_) | Command::Probe => 1,
            Command::Synthetic(ref synthetic) => match synthetic::ranks(synthetic, arguments.ranks)
            {
                Ok(ranks) => ranks,
                Err(code) => return code,
            },
        };
        let facts: Vec<_> = match arguments.command {
            Command::Env(_) => environment::probe().into_iter().collect(),
            Command::Bench(ref bench) => bench.facts().into_iter().collect(),
            _ => Vec::new(),
        };
        return launch::start(arguments.ranks.unwrap_or(default), &facts);
    }
    start_log();
    let environment = match Environment::init() {
        Ok(environment) => environment,
        Err(error) => return launch::fail(&error.to_string(), 1),
    };
    let code = match arguments.command {
        Command::Bench(arguments) => bench::run(&environment, &arguments),
        Command::Env(arguments) => environment::run(&environment, &arguments),
        Command::Experiment(_) | Command::Pattern(_) => unreachable!("these use no MPI"),
        Command::Solve(arguments) => solve::run(&environment, &arguments),
        Command::Synthetic(arguments) => synthetic::run(&environment, &arguments),
        Command::Tune(arguments) => tune::run(&environment, &arguments),
        Command::Probe => ExitCode::SUCCESS,
    };
    if let Err(error) = environment.finalize() {
        eprintln!("malleus: error: {error}");
        return ExitCode::FAILURE;
    }
    code
}

/// Logs go to standard error, if `MALLEUS_LOG` asks for some, in the form of `RUST_LOG`.
fn start_log() {
    let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("MALLEUS_LOG") else {
        return;
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}
