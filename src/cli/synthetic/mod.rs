//! `malleus synthetic`: an application out of a configuration file.

mod check;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use super::failure::Failure;
use super::launch;
use super::progress_line::ProgressLine;
use super::record::{Mpich, Target, check_folder, cores};
use super::resizes::Resizes;
use crate::job::{Job, Options};
use crate::mpi::Environment;
use crate::workload::synthetic::config::{Configuration, ProteoNumbers, ReadOptions};
use crate::workload::synthetic::{self, Finished, Plan, Position, Requests, Settings, proteo};
use report::Report;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What to run: our own form (.toml), or a configuration of Proteo's SAM (.json, .ini).
    file: PathBuf,
    /// Read the configuration, say what it does and what of it is ignored, and start nothing.
    #[arg(long)]
    check: bool,
    /// Which table of numbers an INI file of Proteo uses, where the file does not tell.
    #[arg(long, value_enum, value_name = "WHICH")]
    proteo_numbers: Option<Numbers>,
    /// Append records in the form of Proteo's SAM to R<RUN>_Global.out and R<RUN>_G<GROUP>NP<PROCS>ID0.out in this
    /// folder.
    #[arg(long, value_name = "DIR")]
    proteo_output: Option<PathBuf>,
    /// The number of the run in the names of these files.
    #[arg(long, value_name = "RUN", default_value_t = 0)]
    run: u64,
    /// Where stages that write and read files have them; they have no names, and are gone afterwards [default: the
    /// system's folder for temporary files].
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// Compare a checksum of each array before and after each resize, and the contents at the end: the default.
    #[arg(long, overrides_with = "no_verify")]
    verify: bool,
    /// Do not verify the data.
    #[arg(long, overrides_with = "verify")]
    no_verify: bool,
    /// While data moves in the background, call MPI at checkpoints only, not from a helper thread as well.
    #[arg(long)]
    no_progress: bool,
    /// Write the result as JSON to this file; - for standard output, instead of the tables.
    #[arg(long, value_name = "FILE", value_parser = |name: &str| Ok::<_, String>(Target::from(name)))]
    json: Option<Target>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Numbers {
    Old,
    New,
}

impl Arguments {
    fn plan(&self) -> Result<Plan, String> {
        let options = ReadOptions {
            proteo_numbers: self.proteo_numbers.map(|numbers| match numbers {
                Numbers::Old => ProteoNumbers::Old,
                Numbers::New => ProteoNumbers::New,
            }),
        };
        let configuration =
            Configuration::read(&self.file, &options).map_err(|error| error.to_string())?;
        Plan::new(configuration).map_err(|error| format!("{}: {error}", self.file.display()))
    }

    fn verifies(&self) -> bool {
        self.verify || !self.no_verify
    }
}

/// Before any rank is started: how many ranks to start. The exit code instead where there is nothing to start.
pub(super) fn ranks(arguments: &Arguments, asked: Option<u32>) -> Result<u32, ExitCode> {
    let plan = arguments.plan().map_err(|error| launch::fail(&error, 1))?;
    if arguments.check {
        check::print(&arguments.file, &plan);
        return Err(ExitCode::SUCCESS);
    }
    let first = first_size(&plan);
    let asked = asked.map_or(first, |asked| usize::try_from(asked).unwrap_or(usize::MAX));
    match wrong_size(arguments, &plan, asked) {
        Some(problem) => Err(launch::fail(&problem, 1)),
        None => u32::try_from(first)
            .map_err(|_| launch::fail(&format!("{first} processes are too many"), 1)),
    }
}

fn first_size(plan: &Plan) -> usize {
    let first = plan.configuration.groups.first();
    first.map_or(1, |group| group.processes)
}

fn wrong_size(arguments: &Arguments, plan: &Plan, started: usize) -> Option<String> {
    let first = first_size(plan);
    (started != first).then(|| {
        format!(
            "{}: the first group has {first} processes, but {started} are started",
            arguments.file.display()
        )
    })
}

/// A rank that only checks needs no MPI.
pub(super) fn check_only(arguments: &Arguments) -> Option<ExitCode> {
    arguments.check.then(|| match arguments.plan() {
        Ok(plan) => launch::on_one_rank(
            || {
                check::print(&arguments.file, &plan);
                Ok(())
            },
            0,
        ),
        Err(error) => launch::fail(&error, 1),
    })
}

pub(super) fn run(environment: &Environment, arguments: &Arguments) -> ExitCode {
    match application(environment, arguments) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(report)) => Target::deliver(arguments.json.as_ref(), &report, || report.print()),
        Err(failure) => failure.end(environment),
    }
}

/// The report on rank 0, nothing on the others.
fn application(
    environment: &Environment,
    arguments: &Arguments,
) -> Result<Option<Report>, Failure> {
    let started = Instant::now();
    let requests = Requests::default();
    let options = Options::default()
        .manager(requests.clone())
        .progress(!arguments.no_progress)
        .verify(arguments.verifies());
    let mut job = Job::start(environment, options)?;
    let is_root = job.is_first_start() && job.rank() == 0;
    let ranks_start = job.size();
    let mut oversubscribed = job.is_oversubscribed();
    let plan = match agreed_plan(&job, arguments) {
        Ok(plan) => plan,
        Err(failure @ Failure::Common(_)) => {
            job.end()?;
            return Err(failure);
        }
        Err(failure) => return Err(failure),
    };
    let settings = Settings {
        files: arguments.files.clone().unwrap_or_else(std::env::temp_dir),
        verify: arguments.verifies(),
    };
    let mut line = ProgressLine::new(is_root);
    let groups = plan.configuration.groups.len();
    let show = &mut |position: Position| {
        line.show(format_args!(
            "group {} of {groups}  iteration {}  ranks {}",
            position.group + 1,
            position.iteration,
            position.processes
        ));
    };
    let finished = synthetic::run(&mut job, &requests, &plan, &settings, show);
    line.clear();
    let finished: Option<Finished> = match finished.map_err(Failure::from) {
        Ok(finished) => finished,
        Err(failure @ Failure::Common(_)) => {
            job.end()?;
            return Err(failure);
        }
        Err(failure) => return Err(failure),
    };
    let ranks_end = if job.is_member() { job.size() } else { 0 };
    let events = job.end()?;
    let Some(finished) = finished.filter(|_| is_root) else {
        return Ok(None);
    };
    let resizes = Resizes::of(events);
    oversubscribed |= resizes.oversubscribed();
    let wall_s = started.elapsed().as_secs_f64();
    if let Some(folder) = &arguments.proteo_output {
        let measured = proteo::Measured {
            groups: &finished.groups,
            resizes: &resizes.done,
            total_s: wall_s,
        };
        proteo::append(folder, arguments.run, &plan.configuration, &measured).map_err(|error| {
            Failure::Common(format!("--proteo-output {}: {error}", folder.display()))
        })?;
    }
    Ok(Some(Report::new(
        &arguments.file,
        plan,
        finished,
        resizes,
        report::Facts {
            ranks_start,
            ranks_end,
            wall_s,
            cores: cores(),
            mpich: Mpich::of(environment),
            oversubscribed,
        },
    )))
}

/// The plan, if it fits the job and its result can be written: that is found out before the work. Collective over
/// the job where it starts.
fn agreed_plan(job: &Job, arguments: &Arguments) -> Result<Plan, Failure> {
    let plan = arguments.plan();
    if !job.is_first_start() {
        return plan.map_err(Failure::Fatal);
    }
    let problem = match &plan {
        Err(error) => Some(error.clone()),
        Ok(plan) => wrong_size(arguments, plan, job.size()).or_else(|| {
            let json = arguments.json.as_ref().map_or(Ok(()), Target::check);
            let records = arguments.proteo_output.as_deref();
            let records = records.map_or(Ok(()), |folder: &Path| {
                check_folder("--proteo-output", folder)
            });
            (job.rank() == 0).then(|| json.and(records).err()).flatten()
        }),
    };
    match job.communicator().agree(problem)? {
        Some((_, problem)) => Err(Failure::Common(problem)),
        None => plan.map_err(Failure::Fatal),
    }
}
