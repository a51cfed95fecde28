//! `malleus solve`: conjugate gradients that resize while they solve.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;

use super::failure::Failure;
use super::launch;
use super::progress_line::ProgressLine;
use super::record::{Mpich, Target, check_folder, cores, seconds};
use super::resizes::Resizes;
use crate::job::{Job, Options, Script, ScriptEntry};
use crate::latency;
use crate::mpi::Environment;
use crate::redistribute::{Method, Variant};
use crate::workload::cg::{Error, Progress, Solver};
use crate::workload::halo::HaloExchange;
use crate::workload::matrix::Problem;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The system's matrix, with a right-hand side of ones: a Matrix Market file (.mtx, .mtx.gz),
    /// poisson2d:NXxNY, poisson3d:NXxNYxNZ or hpcg:NXxNYxNZ.
    matrix: Problem,
    /// After that iteration, go on with that number of ranks. May be given several times.
    #[arg(long, value_name = "ITERATION:PROCS")]
    resize: Vec<ScriptEntry>,
    /// How data moves: col (Alltoallv), rma1 (a lock per source), rma2 (lock_all), p2p (messages); with -t (a helper
    /// thread), -nb (non-blocking), -wt (wait targets) or -paced (reads a few at a time) behind it, the matrix moves while the solver goes on.
    #[arg(long, value_name = "VARIANT", default_value_t = Variant::blocking(Method::Collective))]
    method: Variant,
    /// How the vector's elements that a rank's rows need come to it in each iteration: p2p (messages between neighbours), or
    /// alltoallv:VARIANT, a persistent Alltoallv (the variants are those of bench alltoallv).
    #[arg(long, value_name = "EXCHANGE", default_value_t = HaloExchange::Messages)]
    exchange: HaloExchange,
    /// While the matrix moves in the background, call MPI at checkpoints only, not from a helper thread as well.
    #[arg(long)]
    no_progress: bool,
    /// Compare a checksum of each array before and after each resize.
    #[arg(long)]
    verify: bool,
    /// Move one array at a time and free its old block before the next: less memory, no way back.
    #[arg(long)]
    lean: bool,
    /// Stop when ‖r‖ / ‖b‖, with r by recurrence, is not larger.
    #[arg(long, default_value_t = 1e-8, value_parser = tolerance)]
    tolerance: f64,
    /// Give up after so many iterations [default: 50 times the rows, and 1000].
    #[arg(long, value_name = "ITERATIONS")]
    max_iterations: Option<u64>,
    #[arg(long, value_enum, default_value_t = Preconditioner::None)]
    preconditioner: Preconditioner,
    /// Write the result as JSON to this file; - for standard output, instead of the table.
    #[arg(long, value_name = "FILE", value_parser = |name: &str| Ok::<_, String>(Target::from(name)))]
    json: Option<Target>,
    /// Write latency histograms of the run into this folder, merged over its ranks: MPI functions by message
    /// size, stages of resizes.
    #[arg(long, value_name = "DIR")]
    hgrm: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Preconditioner {
    None,
    Jacobi,
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a positive number".to_owned()),
    }
}

/// What `--json` gives.
#[derive(Debug, Serialize)]
struct Report {
    problem: String,
    rows: u64,
    nonzeros: u64,
    iterations: u64,
    relative_residual: f64,
    sum_x: f64,
    ranks_start: usize,
    ranks_end: usize,
    wall_s: f64,
    cores: usize,
    mpich: Mpich,
    /// Whether a node had more active ranks than cores at any time.
    oversubscribed: bool,
    variant: Variant,
    exchange: HaloExchange,
    lean: bool,
    #[serde(flatten)]
    resizes: Resizes,
    not_reached: Vec<NotReached>,
    segments: Vec<Segment>,
}

#[derive(Debug, Serialize)]
struct NotReached {
    iteration: u64,
    to: usize,
}

/// The iterations between two resizes.
#[derive(Debug, Serialize)]
struct Segment {
    ranks: usize,
    iterations: u64,
    /// Mean time of one of them.
    iteration_s: f64,
    /// Mean time of the exchange in one of them, on the rank for which it is largest.
    exchange_s: f64,
}

pub(super) fn run(environment: &Environment, arguments: &Arguments) -> ExitCode {
    let script = match Script::new(arguments.resize.iter().copied()) {
        Ok(script) => script,
        Err(error) => return launch::fail(&error.to_string(), 2),
    };
    match solve(environment, arguments, &script) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(report)) => Target::deliver(arguments.json.as_ref(), &report, || print(&report)),
        Err(failure) => failure.end(environment),
    }
}

/// The report on rank 0, nothing on the others.
fn solve(
    environment: &Environment,
    arguments: &Arguments,
    script: &Script,
) -> Result<Option<Report>, Failure> {
    let started = Instant::now();
    if arguments.hgrm.is_some() {
        latency::start();
    }
    let options = Options::default()
        .manager(script.clone())
        .variant(arguments.method)
        .progress(!arguments.no_progress)
        .verify(arguments.verify)
        .lean(arguments.lean);
    let mut job = Job::start(environment, options)?;
    let is_root = job.is_first_start() && job.rank() == 0;
    let ranks_start = job.size();
    let mut oversubscribed = job.is_oversubscribed();
    let mut watch = Watch::new(is_root, &job);
    let mut finished = match iterate(&mut job, arguments, &mut watch) {
        Ok(finished) => finished,
        Err(failure @ Failure::Common(_)) => {
            watch.line.clear();
            job.end()?;
            return Err(failure);
        }
        Err(failure) => return Err(failure),
    };
    watch.line.clear();
    let (ranks_end, iterations) = if job.is_member() {
        (job.size(), job.iteration())
    } else {
        (0, 0)
    };
    let mut latencies = latency::stop();
    if arguments.hgrm.is_some() && job.is_member() {
        let merged = job.communicator().merge_latency(&latencies, 0);
        latencies = merged.map_err(Error::from)?.unwrap_or_default();
    }
    let events = job.end()?;
    if !is_root {
        return Ok(None);
    }
    if let Some(folder) = &arguments.hgrm {
        latencies
            .write_files(folder)
            .map_err(|error| Failure::Common(format!("--hgrm {}: {error}", folder.display())))?;
    }
    let Some(solution) = finished.take() else {
        return Ok(None);
    };
    let told = Resizes::of(events);
    oversubscribed |= told.oversubscribed();
    Ok(Some(Report {
        problem: arguments.matrix.to_string(),
        rows: solution.rows,
        nonzeros: solution.nonzeros,
        iterations,
        relative_residual: solution.progress.relative_residual,
        sum_x: solution.sum_x,
        ranks_start,
        ranks_end,
        wall_s: started.elapsed().as_secs_f64(),
        cores: cores(),
        mpich: Mpich::of(environment),
        oversubscribed,
        variant: arguments.method,
        exchange: arguments.exchange,
        lean: arguments.lean,
        resizes: told,
        not_reached: script
            .after(iterations)
            .map(|entry| NotReached {
                iteration: entry.iteration,
                to: entry.processes,
            })
            .collect(),
        segments: watch.segments,
    }))
}

struct Solution {
    rows: u64,
    nonzeros: u64,
    progress: Progress,
    sum_x: f64,
}

/// Solves; nothing on a process that has left.
fn iterate(
    job: &mut Job,
    arguments: &Arguments,
    watch: &mut Watch,
) -> Result<Option<Solution>, Failure> {
    // Written by rank 0; a result that can't be written is found out before the work.
    if job.is_first_start() && (arguments.json.is_some() || arguments.hgrm.is_some()) {
        let problem = if job.rank() == 0 {
            let json = arguments.json.as_ref().map_or(Ok(()), Target::check);
            let hgrm = arguments.hgrm.as_deref();
            let hgrm = hgrm.map_or(Ok(()), |folder| check_folder("--hgrm", folder));
            json.and(hgrm).err()
        } else {
            None
        };
        if let Some((_, problem)) = job.communicator().agree(problem).map_err(Error::from)? {
            return Err(Failure::Common(problem));
        }
    }
    let mut solver = Solver::new(
        job,
        &arguments.matrix,
        arguments.preconditioner == Preconditioner::Jacobi,
        arguments.exchange,
    )?;
    let outcome = advance(job, &mut solver, arguments, watch);
    if !matches!(outcome, Err(Failure::Fatal(_))) {
        solver.free()?;
    }
    outcome
}

/// Iterates up to the solution; nothing on a process that has left.
fn advance(
    job: &mut Job,
    solver: &mut Solver,
    arguments: &Arguments,
    watch: &mut Watch,
) -> Result<Option<Solution>, Failure> {
    let limit = arguments
        .max_iterations
        .unwrap_or_else(|| 1000 + 50 * solver.rows());
    watch.begin(job);
    loop {
        let progress = solver.progress(job);
        watch.show(&progress);
        if progress.relative_residual <= arguments.tolerance {
            let until = Instant::now();
            let sum_x = solver.sum_x(job)?;
            solver.free()?;
            watch.close(job.iteration(), until, solver.take_exchange_s());
            return Ok(Some(Solution {
                rows: solver.rows(),
                nonzeros: solver.nonzeros(),
                progress,
                sum_x,
            }));
        }
        if job.iteration() >= limit {
            return Err(Failure::Common(format!(
                "no convergence in {limit} iterations: ‖r‖/‖b‖ = {:.3e} is above {:.3e}",
                progress.relative_residual, arguments.tolerance
            )));
        }
        solver.step(job)?;
        let (ranks, before) = (job.size(), Instant::now());
        if !solver.checkpoint(job)? {
            return Ok(None);
        }
        if job.size() != ranks {
            watch.next_segment(job, before, solver.take_exchange_s());
        }
    }
}

/// Rank 0's clock, and its progress line.
struct Watch {
    segments: Vec<Segment>,
    ranks: usize,
    first_iteration: u64,
    since: Instant,
    is_root: bool,
    line: ProgressLine,
}

impl Watch {
    fn new(is_root: bool, job: &Job) -> Self {
        Self {
            segments: Vec::new(),
            ranks: job.size(),
            first_iteration: 0,
            since: Instant::now(),
            is_root,
            line: ProgressLine::new(is_root),
        }
    }

    fn begin(&mut self, job: &Job) {
        self.since = Instant::now();
        self.first_iteration = job.iteration();
    }

    fn next_segment(&mut self, job: &Job, until: Instant, exchange_s: f64) {
        self.close(job.iteration(), until, exchange_s);
        self.ranks = job.size();
        self.begin(job);
    }

    fn close(&mut self, iteration: u64, until: Instant, exchange_s: f64) {
        let iterations = iteration - self.first_iteration;
        if self.is_root && iterations > 0 {
            let iteration_s = until.duration_since(self.since).as_secs_f64() / iterations as f64;
            self.segments.push(Segment {
                ranks: self.ranks,
                iterations,
                iteration_s,
                exchange_s: exchange_s / iterations as f64,
            });
        }
    }

    fn show(&mut self, progress: &Progress) {
        self.line.show(format_args!(
            "iteration {}  ‖r‖/‖b‖ {:.3e}  ranks {}",
            progress.iteration, progress.relative_residual, progress.ranks
        ));
    }
}

/// The table of a run.
fn print(report: &Report) {
    let mpich = &report.mpich;
    println!(
        "{}: {} rows, {} nonzeros",
        report.problem, report.rows, report.nonzeros
    );
    mpich.print(report.cores, report.oversubscribed);
    println!(
        "converged in {} iterations: ‖r‖/‖b‖ = {:.3e}, sum(x) = {:.12e}; {} in all",
        report.iterations,
        report.relative_residual,
        report.sum_x,
        seconds(report.wall_s)
    );
    println!("exchange {}:", report.exchange);
    for segment in &report.segments {
        println!(
            "  {:>3} rank{} {:>6} iterations, {} each, of which {} in the exchange",
            segment.ranks,
            if segment.ranks == 1 { ", " } else { "s," },
            segment.iterations,
            seconds(segment.iteration_s),
            seconds(segment.exchange_s)
        );
    }
    report.resizes.print();
    for entry in &report.not_reached {
        println!(
            "not reached: the resize to {} at iteration {}",
            entry.to, entry.iteration
        );
    }
}
